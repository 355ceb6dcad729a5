#!/usr/bin/env python3
"""Reads the installed header spectool.h, and spectool_measure.h beside it, and writes its interface as text, as ctypes, or as checks in C.

Usage: interface.py text HEADER      functions, structs with the offsets and sizes of their members, constants
       interface.py ctypes HEADER    a Python module with the same
       interface.py checks HEADER    C that compiles only if the compiler agrees about sizes and offsets
       interface.py compare HEADER FILE    exit 1 if the interface is not that of FILE, the text of the last release, and
                                     its version is the same; or lost something, and only the patch level is higher
"""
import ctypes
import re
import sys

SCALARS = {"bool": "c_bool", "char": "c_char", "int": "c_int", "unsigned": "c_uint", "size_t": "c_size_t",
           "float": "c_float", "double": "c_double", "uint16_t": "c_uint16", "uint32_t": "c_uint32",
           "uint64_t": "c_uint64"}


def ctype(words, pointers, member):
    """The name in ctypes of a type. Texts that a caller lends are c_char_p, all other pointers c_void_p."""
    words = [w for w in words if w not in ("const", "SP_API", "SP_API_STATUS", "SP_MUST_CHECK")]
    if pointers:
        return "c_char_p" if words == ["char"] and pointers == 1 and member else "c_void_p"
    if words[0] == "enum":
        return "c_int"
    if words[0] == "struct":
        return words[1]
    return "None" if words == ["void"] else SCALARS[words[0]]


def declarators(text, constants):
    """Members of one declaration: (name, type)."""
    if "(*" in text:
        return [(re.search(r"\(\*(\w+)\)", text).group(1), "c_void_p")]
    base, rest = re.match(r"((?:const |struct \w+ ?|enum \w+ ?|\w+ )+)(.*)", text).groups()
    words = base.split()
    found = []
    for one in rest.split(","):
        name = re.search(r"(\w+)\s*(?:\[(\w+)\])?$", one.strip())
        kind = ctype(words, one.count("*"), words[0] == "const")
        found.append((name.group(1), f"{kind} * {constants.get(name.group(2), name.group(2))}" if name.group(2) else kind))
    return found


def read(path):
    text = "".join(open(p, encoding="ascii").read() for p in (path, path.removesuffix(".h") + "_measure.h"))
    version = [re.search(rf"VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    text = re.sub(r'extern "C" \{', "", re.sub(r"\s+", " ", text))
    constants, structs, functions = {}, {}, {}
    for body in re.findall(r"enum(?: \w+)? \{([^}]*)\}", text):
        value = -1
        for item in filter(None, (i.strip() for i in body.split(","))):
            name, _, given = item.partition(" = ")
            value = int(given) if given else value + 1
            constants[name] = value
    for name, body in re.findall(r"struct (\w+) \{([^}]*)\}", text):
        members = (declarators(m.strip(), constants) for m in body.split(";") if m.strip())
        structs[name] = [one for group in members for one in group]
    for result, name, arguments in re.findall(r"(SP_API(?:_STATUS)? [^;{}(]*?\*?)\b(sp_\w+)\(((?:[^()]|\([^()]*\))*)\)", text):
        words = result.replace("*", " ").split()
        words = ["enum", "sp_status"] if words[0] == "SP_API_STATUS" else words
        kinds = []
        for argument in re.split(r",(?![^()]*\))", arguments):
            argument = argument.strip()
            if argument in ("void", "..."):
                continue
            pointers = argument.count("*") + argument.count("[")
            kinds.append("c_void_p" if "(*" in argument else
                         ctype(argument.split("[")[0].replace("*", " ").split()[:-1], pointers, argument.startswith("const")))
        functions[name] = (ctype(words, result.count("*"), True), kinds, " ".join(f"{result}{name}({arguments})".split()))
    return ".".join(version), constants, structs, functions


def as_ctypes(header):
    version, constants, structs, functions = read(header)
    lines = ['"""The interface of spectool.h; written by packaging/interface.py."""',
             "from ctypes import (Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_size_t,",
             "                    c_uint, c_uint16, c_uint32, c_uint64, c_void_p)", "from typing import Any", "",
             f'VERSION = "{version}"']
    lines += [f"{name} = {value}" for name, value in constants.items()]
    for name, members in structs.items():
        lines += ["", "", f"class {name}(Structure):", "    _fields_ = ["]
        lines += [f'        ("{member}", {kind}),' for member, kind in members] + ["    ]"]
    lines += ["", "", "FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {"]
    for name, (result, arguments, _) in functions.items():
        lines.append(f'    "{name}": ({result}, [{", ".join(arguments)}]),')
    return "\n".join(lines + ["}"]) + "\n"


def as_text(header):
    version, constants, structs, functions = read(header)
    module = {}
    exec(as_ctypes(header), module)  # pylint: disable=exec-used
    lines = [f"version {version}"] + [prototype for _, (_, _, prototype) in sorted(functions.items())]
    for name, members in sorted(structs.items()):
        struct = module[name]
        lines.append(f"struct {name} {ctypes.sizeof(struct)}")
        lines += [f"    {getattr(struct, m).offset} {getattr(struct, m).size} {m}" for m, _ in members]
    return "\n".join(lines + [f"{name} {value}" for name, value in sorted(constants.items())]) + "\n"


def as_checks(header):
    _, constants, structs, _ = read(header)
    module = {}
    exec(as_ctypes(header), module)  # pylint: disable=exec-used
    lines = ["#include <spectool.h>", "#include <spectool_measure.h>"]
    for name, members in structs.items():
        lines.append(f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(module[name])}, "{name}");')
        lines += [f'_Static_assert(offsetof(struct {name}, {m}) == {getattr(module[name], m).offset}, "{name}.{m}");'
                  for m, _ in members]
    return "\n".join(lines + [f'_Static_assert({n} == {v}, "{n}");' for n, v in constants.items()]) + "\n"


def compare(header, path):
    now, last = as_text(header).splitlines(), open(path, encoding="ascii").read().splitlines()
    new, old = ([int(n) for n in lines[0].split()[1].split(".")] for lines in (now, last))
    changed = [line for line in sorted(set(now[1:]) ^ set(last[1:])) if new == old or line not in now]
    if new < old or (new[:2] == old[:2] and changed):
        for line in changed:
            print("+" if line in now else "-", line)
        sys.exit(f"{now[0]}: the interface is not that of the released {last[0]}: raise the version in runtime/spectool.h")


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        compare(*sys.argv[2:])
    else:
        sys.stdout.write({"text": as_text, "ctypes": as_ctypes, "checks": as_checks}[sys.argv[1]](sys.argv[2]))

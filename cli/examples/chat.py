#!/usr/bin/env python3
"""Asks a packed file a question through the shared library, with the file's own settings.

Usage: chat.py LIBRARY FILE QUESTION [TOOLS]

TOOLS is a JSON array as in OpenAI's API; with it the answer is a call of one of the tools. The
structs are those of spectool.h.
"""
import sys
from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_int,
                    c_size_t, c_void_p, sizeof, string_at)

CONTENT, REASONING, TOOL_CALL = range(3)
CALLS_REQUIRED = 3


class Err(Structure):
    _fields_ = [("status", c_int), ("text", c_char * 1024)]


class Message(Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p), ("reasoning", c_char_p)]


class ChatRequest(Structure):
    _fields_ = [("size", c_size_t), ("messages", c_char_p), ("turns", POINTER(Message)),
                ("n_turns", c_size_t), ("tools", c_char_p), ("kwargs", c_char_p),
                ("vars", c_char_p), ("prompt", c_char_p), ("suffix", c_char_p), ("ids", c_void_p),
                ("n_ids", c_size_t), ("omit_generation_prompt", c_bool), ("is_think_set", c_bool),
                ("think", c_bool), ("think_level", c_char_p), ("now", c_void_p),
                ("prefix", c_char_p), ("prefix_size", c_size_t), ("response_format", c_void_p),
                ("calls", c_int)]


class Part(Structure):
    _fields_ = [("kind", c_int), ("text", c_void_p), ("size", c_size_t), ("name", c_char_p)]


@CFUNCTYPE(c_int, c_void_p, POINTER(Part))
def show(_context, part):
    text = string_at(part[0].text, part[0].size).decode()
    if part[0].kind == TOOL_CALL:
        text = f"call {part[0].name.decode()} {text}"
    print(text, end="", file=sys.stderr if part[0].kind == REASONING else sys.stdout)
    return 0


def main(library, file, question, tools=None):
    lib, err, package = CDLL(library), Err(), c_void_p()
    chat = ChatRequest(size=sizeof(ChatRequest), n_turns=1,
                       turns=(Message * 1)(Message(b"user", question.encode())),
                       tools=tools.encode() if tools else None,
                       calls=CALLS_REQUIRED if tools else 0)
    if lib.sp_package_open(byref(package), file.encode(), None, byref(err)) or \
            lib.sp_ask(package, byref(chat), show, None, None, byref(err)):
        sys.exit(err.text.decode())
    print()
    lib.sp_package_close(package)


if __name__ == "__main__":
    main(*sys.argv[1:])

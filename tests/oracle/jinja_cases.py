#!/usr/bin/env python3
"""Rewrite the expected values of testdata/templates/jinja.jsonl: python3 jinja_cases.py FOLDER

Each line holds a template; Jinja2, configured as in transformers, renders it with the variables of
FOLDER/variables.json, and the line gets "rendered", or "error" with the exception's class. To add a
case, add a line {"template": "..."} and run this. Needs Jinja2 3.1."""
import datetime
import json
import pathlib
import sys

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    """Jinja2 as transformers configures it, at noon of 2025-06-15."""
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    now = datetime.datetime(2025, 6, 15, 12, 0, 0)
    env.globals["strftime_now"] = now.strftime
    return env


def main():
    folder = pathlib.Path(sys.argv[1])
    env = environment()
    variables = json.loads((folder / "variables.json").read_text())
    path = folder / "jinja.jsonl"
    lines = []
    for line in path.read_text().split("\n"):
        if not line:
            continue
        case = {"template": json.loads(line)["template"]}
        try:
            case["rendered"] = env.from_string(case["template"]).render(**variables)
        except Exception as e:
            case["error"] = type(e).__name__
        lines.append(json.dumps(case) + "\n")
    path.write_text("".join(lines))


if __name__ == "__main__":
    main()

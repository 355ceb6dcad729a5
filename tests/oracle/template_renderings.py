#!/usr/bin/env python3
"""Compares chat templates with Jinja2: template_renderings.py SPECTOOL GOLDEN FOLDER

FOLDER holds chat templates of published models, *.jinja, such as models/templates of llama.cpp; GOLDEN
is shared/chat_templates/jinja_golden.jsonl, whose conversations, tools and variables each template gets.
What Jinja2, configured as in transformers, renders must be what `spectool render` renders; where it
raises an exception, spectool must refuse. Prints the differences and a line of what was done; exits
with 1 if there was one. Needs Jinja2 3.1."""
import json
import pathlib
import subprocess
import sys

from jinja_cases import environment


def conversations(golden):
    found = {}
    for line in filter(None, golden.read_text(encoding="utf-8").split("\n")):
        row = json.loads(line)
        key = json.dumps([row["messages"], row["tools"]])
        found.setdefault(key, {k: row[k] for k in ("messages", "tools", "kwargs")})
    return list(found.values())


def render(template, case):
    try:
        return template.render(messages=case["messages"], tools=case["tools"], documents=None, **case["kwargs"])
    except Exception as problem:  # whatever a template can raise
        return problem


def main():
    program, golden, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    cases, n, n_errors, n_differing = conversations(golden), 0, 0, 0
    paths = sorted(folder.rglob("*.jinja"))
    for path in paths:
        text = path.read_text(encoding="utf-8")
        lines = [json.dumps(case | {"template": text}) for case in cases]
        run = subprocess.run([program, "render", "--batch", "--jinja", "--date", "2025-06-15"],
                             input="\n".join(lines), capture_output=True, text=True, check=False)
        found = [json.loads(line) for line in run.stdout.split("\n") if line]
        if len(found) != len(cases):
            sys.exit(f"{path}: {len(found)} of {len(cases)} renderings: {run.stderr}")
        template = environment().from_string(text)
        differing = 0
        for case, answer in zip(cases, found):
            wanted = render(template, case)
            n_errors += isinstance(wanted, Exception)
            if isinstance(wanted, Exception) and "error" in answer or answer.get("rendered") == wanted:
                continue
            differing += 1
            if differing <= 2:
                print(f"{path.name}: {json.dumps(case)[:300]}\n    {answer!r:.400}\n    {wanted!r:.400}")
        n += len(cases)
        n_differing += differing
        if differing:
            print(f"{path.name}: {differing} of {len(cases)} differ")
    print(f"{len(paths)} templates, {n} renderings, {n_errors} of them errors; {n_differing} differ")
    sys.exit(n_differing > 0)


main()

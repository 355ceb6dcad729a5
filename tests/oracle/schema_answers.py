#!/usr/bin/env python3
"""Checks that answers with --format SCHEMA are valid: schema_answers.py SPECTOOL FILE SUITE [N]

SUITE is a checkout of https://github.com/json-schema-org/JSON-Schema-Test-Suite, FILE a packed file
with a chat template. For each schema of the drafts 7 and 2020-12, optional ones included, N answers
(default: 4) are generated with different seeds at a high temperature, so that the model prefers nothing
and the grammar decides. Each answer that has ended must be valid by the Python package jsonschema; a
schema may be refused instead, with a sentence. Prints each answer that is not valid and a line of what
was done; exits with 1 if there was one."""
import glob
import json
import re
import subprocess
import sys

import jsonschema

DRAFTS = {"draft7": jsonschema.Draft7Validator, "draft2020-12": jsonschema.Draft202012Validator}
MAX_TOKENS = 120
CLASSES = {"w": "0-9A-Za-z_", "d": "0-9",
           "s": "\\t-\\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"}


def cases(suite):
    for draft in DRAFTS:
        for path in sorted(glob.glob(f"{suite}/tests/{draft}/**/*.json", recursive=True)):
            for group in json.load(open(path, encoding="utf-8")):
                name = f"{draft}/{path.split('/')[-1]}: {group['description']}"
                yield name, draft, group["schema"]


def ecma_pattern(_, pattern, text, __):
    """The keyword pattern, with the members that ECMA 262 gives the classes, which are others in Python."""
    for name, members in CLASSES.items():
        pattern = pattern.replace(f"\\{name}", f"[{members}]").replace(f"\\{name.upper()}", f"[^{members}]")
    if isinstance(text, str) and not re.search(pattern, text):
        yield jsonschema.ValidationError(f"{text!r} does not match {pattern!r}")


def is_valid(draft, schema, value):
    base = DRAFTS[draft]
    validator = jsonschema.validators.extend(base, {"pattern": ecma_pattern})
    return validator(schema, format_checker=base.FORMAT_CHECKER).is_valid(value)


def main():
    program, file, suite, *rest = sys.argv[1:]
    n_each = int(rest[0]) if rest else 4
    found = list(cases(suite))
    lines = [json.dumps({"custom_id": f"{i} {seed}", "prompt": "Write JSON.", "format": schema, "seed": seed,
                         "temperature": 50, "num_predict": MAX_TOKENS})
             for i, (_, _, schema) in enumerate(found) for seed in range(n_each)]
    run = subprocess.run([program, "run", "--batch", file], input="\n".join(lines), capture_output=True,
                         text=True, check=False)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if len(answers) != len(lines):
        sys.exit(f"{len(answers)} answers to {len(lines)} lines: {run.stderr}")
    refused, n_valid, n_cut, wrong = set(), 0, 0, 0
    for answer in answers:
        number = int(answer["custom_id"].split()[0])
        name, draft, schema = found[number]
        if "error" in answer:
            refused.add(number)
            continue
        if answer["stop"] != "eos":
            n_cut += 1
            continue
        try:
            valid = is_valid(draft, schema, json.loads(answer["text"]))
        except (ValueError, RecursionError) as problem:
            valid = False
            name += f" ({problem!r})"
        n_valid += valid
        wrong += not valid
        if not valid:
            print(f"{name}\n    {json.dumps(schema)[:300]}\n    {answer['text'][:300]}")
    print(f"{len(found)} schemas, {len(refused)} refused; {n_valid} valid answers, {n_cut} cut, {wrong} not valid")
    sys.exit(wrong > 0)


main()

#!/usr/bin/env python3
"""Write testdata/grammars/schemas.jsonl: python3 schema_cases.py SUITE FOLDER

SUITE is a checkout of github.com/json-schema-org/JSON-Schema-Test-Suite (MIT licence). One line per
group of its draft 2020-12 cases, including formats: name, schema, and [text, valid] for each case. The
text is the instance as Python's json writes it without whitespace. Groups that refer to other documents
are omitted. The script stops if Python's jsonschema disagrees with the suite, except for formats, which
it does not check, and patterns that Python's re does not support."""
import json
import pathlib
import re
import sys

import jsonschema

FOLDER = "tests/draft2020-12"
KEYWORDS = """additionalProperties allOf anyOf boolean_schema const default defs enum exclusiveMaximum
exclusiveMinimum format infinite-loop-detection items maxItems maxLength maximum minItems minLength
minimum oneOf pattern prefixItems properties ref required type
if-then-else not contains uniqueItems multipleOf patternProperties anchor dependentRequired dependentSchemas
maxContains maxProperties minContains minProperties propertyNames""".split()
FORMATS = "date time date-time duration uuid ipv4 email hostname uri".split()


def text_of(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def groups(suite):
    for name in KEYWORDS:
        for group in json.loads((suite / FOLDER / f"{name}.json").read_text()):
            yield f"{name}: {group['description']}", group, False
    for name in FORMATS:
        path = suite / FOLDER / "optional" / "format" / f"{name}.json"
        for group in json.loads(path.read_text()):
            yield f"format {name}: {group['description']}", group, True


def wants_others(schema):
    text = json.dumps(schema)
    return "http://localhost" in text or '"$ref": "http' in text or "urn:" in text


def agrees(schema, case):
    try:
        return jsonschema.Draft202012Validator(schema).is_valid(case["data"]) == case["valid"]
    except re.error:
        return True


def main():
    suite, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with open(folder / "schemas.jsonl", "w") as out:
        for name, group, is_format in groups(suite):
            schema = group["schema"]
            if wants_others(schema):
                continue
            if isinstance(schema, dict):
                schema.pop("$schema", None)
            cases = []
            for case in group["tests"]:
                if not is_format and not agrees(schema, case):
                    sys.exit(f"{name}: {case['description']}: jsonschema disagrees")
                if is_format and not isinstance(case["data"], str):
                    continue
                cases.append([text_of(case["data"]), case["valid"]])
            if cases:
                line = {"name": name, "schema": schema, "cases": cases}
                out.write(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n")


main()

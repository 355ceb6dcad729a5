#!/usr/bin/env python3
"""Checks answers to schemas as clients make them: schema_clients.py SPECTOOL FILE [N]

FILE is a packed file with a chat template. 100 models are made of pydantic's types, constraints, unions
and nesting at random, half of the schemas as openai's parse() changes them (strict: every property
required, no other properties), and 100 schemas are written as zod 4's toJSONSchema() and zod 3's
zod-to-json-schema write theirs. For each, N answers (default: 2) are generated at a high temperature, so
that the model prefers nothing and the grammar decides. No schema may be refused, and each answer that has ended must be valid by the Python package
jsonschema and, of pydantic's, by the model itself. Prints what is wrong and a line of what was done; exits
with 1 if anything was. Needs pydantic and jsonschema."""
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import random
import subprocess
import sys
import typing
import uuid

import jsonschema
import pydantic

MAX_TOKENS = 300
NOT_IN_SCHEMAS = ("url_scheme",)  # what pydantic checks and its schemas do not say
r = random.Random(41)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


def constrained():
    F = pydantic.Field
    return r.choice([
        typing.Annotated[int, F(gt=0, lt=r.randint(3, 500))], typing.Annotated[int, F(ge=-5, le=5)],
        typing.Annotated[float, F(gt=0, lt=1)], typing.Annotated[float, F(ge=-1.5, le=1e3)],
        typing.Annotated[str, F(min_length=1, max_length=r.randint(2, 30))],
        typing.Annotated[str, F(pattern=r"^[a-z]+(-[a-z]+)*$", max_length=20)],
        typing.Annotated[str, F(pattern=r"^\d{3}-\d{4}$")], typing.Annotated[int, F(multiple_of=5)],
        typing.Annotated[list[int], F(min_length=1, max_length=4)], pydantic.conint(ge=0, le=2**53 - 1)])


def plain():
    return r.choice([
        str, int, float, bool, Color, Level, datetime.date, datetime.datetime, datetime.time, uuid.UUID,
        decimal.Decimal, ipaddress.IPv4Address, ipaddress.IPv6Address, pathlib.Path, bytes, pydantic.HttpUrl,
        datetime.timedelta, typing.Literal["a", "b", 3], typing.Literal["only"], typing.Any, pydantic.SecretStr])


def type_of(depth):
    kind = r.random()
    if depth == 0 or kind < 0.35:
        return constrained() if r.random() < 0.4 else plain()
    inner = type_of(depth - 1)
    if kind < 0.5:
        return typing.Optional[inner]
    if kind < 0.6:
        return list[inner]
    if kind < 0.63:
        return dict[str, inner]
    if kind < 0.65:
        return dict[typing.Annotated[str, pydantic.Field(pattern="^[a-z]+_id$")], inner]
    if kind < 0.7:
        return tuple[int, str, bool]
    if kind < 0.75:
        return set[typing.Literal["x", "y", "z"]]
    if kind < 0.85:
        return typing.Union[int, str, list[bool]]
    return model(depth - 1)


def model(depth):
    number = r.randrange(10**6)
    if r.random() < 0.15:
        cat = pydantic.create_model(f"Cat{number}", kind=(typing.Literal["cat"], "cat"), lives=(int, ...))
        dog = pydantic.create_model(f"Dog{number}", kind=(typing.Literal["dog"], "dog"), name=(str, ...))
        pet = typing.Annotated[typing.Union[cat, dog], pydantic.Field(discriminator="kind")]
        return pydantic.create_model(f"Pet{number}", pet=(pet, ...))
    fields = {}
    for name in r.sample(["name", "age", "tags", "price", "born", "parent", "note", "kind_of", "x"],
                         r.randint(1, 5)):
        default = r.choice([..., ..., None])
        kind = type_of(depth)
        fields[name] = (kind if default is ... else typing.Optional[kind],
                        pydantic.Field(default, description="A field." if r.random() < 0.3 else None))
    config = pydantic.ConfigDict(extra="forbid") if r.random() < 0.3 else None
    return pydantic.create_model(f"M{number}", __config__=config, **fields)


def strict(schema):
    """What openai's parse() makes of a schema."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: strict(value) for key, value in schema.items() if key != "default"}
    if out.get("type") == "object" and isinstance(out.get("properties"), dict):
        out["additionalProperties"] = False
        out["required"] = list(out["properties"])
    return out


def zod(depth, four):
    """A schema in the style of zod 4 or 3."""
    safe = 9007199254740991
    leaves = [
        {"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "string", "minLength": 2},
        {"type": "integer", "minimum": -safe, "maximum": safe} if four else {"type": "integer"},
        {"type": "integer", "exclusiveMinimum": 0, "maximum": safe}, {"type": "string", "const": "a"},
        {"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "enum": ["x", "y z", "\u00e9"]},
        {"type": "string", "format": "email", "pattern": r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]"
         r"@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"} if four else {"type": "string", "format": "email"},
        {"type": "string", "format": "uuid", "pattern": "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-"
         "[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000)$"},
        {"type": "string", "format": "uri"}, {"type": "string", "pattern": "^[A-Z]{2,3}$"}, {"type": "null"},
        {"type": "string", "format": "date"}, {}, {"not": {"type": "null"}}, {"type": "number", "multipleOf": 0.25},
        {"type": "string", "not": {"enum": ["x", "y"]}}]
    if depth == 0 or r.random() < 0.3:
        return r.choice(leaves if depth < 3 else leaves[:-3])
    kind = r.randrange(7)
    if kind == 0:
        return {"type": "array", "items": zod(depth - 1, four), "minItems": 1, "maxItems": r.randint(1, 3)}
    if kind == 1:
        return {"anyOf": [zod(depth - 1, four), {"type": "null"}]}
    if kind == 2:
        names = {"propertyNames": {"type": "string"}} if four else {}
        return {"type": "object", **names, "additionalProperties": zod(depth - 1, four)}
    if kind == 3:
        items = [zod(0, four), zod(0, four)]
        return {"type": "array", "prefixItems": items} if four else \
            {"type": "array", "minItems": 2, "maxItems": 2, "items": items}
    if kind == 4:
        branches = [{"type": "object", "properties": {"type": {"type": "string", "const": name},
                                                      "value": zod(depth - 1, four)},
                     "required": ["type", "value"], "additionalProperties": False} for name in "ab"]
        return {"oneOf" if four and r.random() < 0.5 else "anyOf": branches}
    names = r.sample(["id", "name", "url", "count", "items", "meta"], r.randint(1, 4))
    return {"type": "object", "properties": {name: zod(depth - 1, four) for name in names},
            "required": [name for name in names if r.random() < 0.7], "additionalProperties": r.random() < 0.2}


def cases():
    for i in range(100):
        made = model(r.randint(1, 3))
        schema = made.model_json_schema()
        yield (strict(schema) if i % 2 else schema), made
    for i in range(100):
        four = i % 2 == 0
        draft = "https://json-schema.org/draft/2020-12/schema" if four else \
            "http://json-schema.org/draft-07/schema#"
        yield {"$schema": draft, **zod(3, four)}, None


def fault(schema, made, text):
    try:
        value = json.loads(text)
    except ValueError as e:
        return str(e)
    error = jsonschema.validators.validator_for(schema)(schema).iter_errors(value)
    for e in error:
        return e.message
    try:
        if made:
            made.model_validate_json(text)
    except pydantic.ValidationError as e:
        for error in e.errors():
            if error["type"] not in NOT_IN_SCHEMAS:
                return f"pydantic: {error['type']} {error['input']!r}"
    return None


def main():
    program, file, *rest = sys.argv[1:]
    n_each = int(rest[0]) if rest else 2
    found = list(cases())
    lines = [json.dumps({"custom_id": f"{i} {seed}", "prompt": "Write JSON.", "format": schema, "seed": seed,
                         "temperature": 20, "num_predict": MAX_TOKENS})
             for i, (schema, _) in enumerate(found) for seed in range(n_each)]
    run = subprocess.run([program, "run", "--batch", file], input="\n".join(lines), capture_output=True,
                         text=True, check=False)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    n_valid = n_cut = n_refused = n_wrong = 0
    for answer in answers:
        schema, made = found[int(answer["custom_id"].split()[0])]
        if answer.get("error"):
            n_refused += 1
            wrong = "refused: " + str(answer["error"])
        elif answer["stop"] == "length":
            n_cut += 1
            continue
        else:
            wrong = fault(schema, made, answer["text"])
        n_valid += wrong is None
        if wrong:
            n_wrong += 1
            print(f"{answer['custom_id']}: {wrong}: {answer.get('text', '')[:120]!r}\n  {json.dumps(schema)}")
    print(f"{len(found)} schemas, {len(answers)} of {len(lines)} answers: {n_valid} valid, "
          f"{n_cut} cut, {n_refused} refused, {n_wrong} wrong")
    sys.exit(n_wrong > 0 or len(answers) != len(lines))


if __name__ == "__main__":
    main()

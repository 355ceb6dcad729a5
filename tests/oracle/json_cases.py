#!/usr/bin/env python3
"""Write testdata/json/suite.txt: python3 json_cases.py SUITE FOLDER

SUITE is a checkout of github.com/nst/JSONTestSuite (MIT licence). One line a case of test_parsing: its
name, which begins with y (must be taken), n (must be refused) or i (either), and its bytes in hex.
Python's json has to agree where it is strict, or the script stops. The two cases above 10 kB are left
out: they are brackets without end, which tests/format/test_json_suite.c writes itself."""
import json
import pathlib
import sys



def refuse(name):
    raise ValueError(name)


def taken(text):
    try:
        json.loads(text.decode("utf-8"), parse_constant=refuse)
        return True
    except (ValueError, RecursionError):
        return False


def main():
    suite, folder = map(pathlib.Path, sys.argv[1:])
    with open(folder / "suite.txt", "w") as out:
        for path in sorted((suite / "test_parsing").iterdir()):
            text = path.read_bytes()
            if len(text) > 10000:
                continue
            if path.name[0] in "yn" and taken(text) != (path.name[0] == "y"):
                sys.exit(f"{path.name}: Python disagrees")
            out.write(f"{path.stem} {text.hex()}\n")


main()

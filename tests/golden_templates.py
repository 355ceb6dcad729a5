#!/usr/bin/env python3
"""Runs golden chat templates through the command: spectool render --batch.

    tests/golden_templates.py path/to/spectool path/to/shared

Reads shared/chat_templates and shared/tokenizers/*/chat_golden.jsonl. A line with "error" must be
refused, with the template's own message if it raised one. Ends with one line, "N passed, N failed";
exit status 1 if any failed."""
import json
import pathlib
import subprocess
import sys

MEMBERS = ("messages", "tools", "kwargs", "think", "is_think_set", "prompt", "suffix")


def rows(path):
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def render(spectool, options, cases):
    text = "".join(json.dumps(c, ensure_ascii=False) + "\n" for c in cases)
    done = subprocess.run([spectool, "render", "--batch", "--date", "2025-06-15", *options],
                          input=text.encode(), capture_output=True)
    if done.returncode != 0:
        print("exit %d: %s" % (done.returncode, done.stderr.decode().strip()))
    out = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    return out + [{}] * (len(cases) - len(out))


def check(name, found, wanted, own_words):
    def good(f, w):
        if "rendered" in w:
            return f.get("rendered") == w["rendered"]
        return "error" in f and (not own_words or w["error"] in f["error"])

    bad = [i for i, (f, w) in enumerate(zip(found, wanted)) if not good(f, w)]
    for i in bad[:3]:
        print("%s %d: %r, expected %r" % (name, i + 1, found[i], wanted[i].get("rendered", wanted[i].get("error"))))
    print("%-40s %d passed, %d failed" % (name, len(wanted) - len(bad), len(bad)))
    return len(wanted) - len(bad), len(bad)


def features(spectool, folder, language, variables):
    lines = rows(folder / (language + "_features.jsonl"))
    cases = [{"template": w["template"], "vars": variables} for w in lines]
    return check(language + "_features", render(spectool, ["--" + language], cases), lines, False)


def templates(spectool, folder, language, suffix):
    lines = rows(folder / (language + "_golden.jsonl"))
    cases = []
    for line in lines:
        text = (folder / (line["template"] + suffix)).read_bytes().decode()
        cases.append(dict({m: line[m] for m in MEMBERS if m in line}, template=text))
    # The language of the template is detected.
    return check(language + "_golden", render(spectool, [], cases), lines, True)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    spectool, shared = sys.argv[1], pathlib.Path(sys.argv[2])
    folder = shared / "chat_templates"
    results = []
    if folder.exists():
        jinja = json.loads((folder / "jinja_features_ctx.json").read_text())
        # The file was written by a program that stores all numbers as doubles.
        jinja.update(fl=1.0, big=12345678901234567890)
        go = json.loads((folder / "go_features_data.json").read_text())
        results = [features(spectool, folder, "jinja", jinja), features(spectool, folder, "go", go),
                   templates(spectool, folder, "jinja", ".jinja"), templates(spectool, folder, "go", ".gotmpl")]
    for path in sorted(shared.glob("tokenizers/*/chat_golden.jsonl")):
        lines = rows(path)
        cases = [{m: w[m] for m in MEMBERS if m in w} for w in lines]
        found = render(spectool, [str(path.parent / "tokenizer_config.json")], cases)
        results.append(check(path.parent.name, found, lines, True))
    passed, failed = sum(r[0] for r in results), sum(r[1] for r in results)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed or not passed else 0)


main()

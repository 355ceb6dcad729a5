#!/usr/bin/env python3
"""Runs golden tokenizer files through the command: spectool tokenize and detokenize with --batch.

    tests/golden_tokenizers.py path/to/spectool path/to/tokenizers

Every folder below with a tokenizer.json (or tokenizer.json.zst, which needs zstd) and a
golden.jsonl is one tokenizer. Ends with one line, "N passed, N failed"; exit status 1 if any failed."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile


def rows(path):
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def batch(spectool, command, source, options, values):
    text = "".join(json.dumps(v, ensure_ascii=False) + "\n" for v in values)
    done = subprocess.run([spectool, command, source, "--batch", *options], input=text.encode(), capture_output=True)
    if done.returncode != 0:
        print("%s %s: exit %d: %s" % (command, source, done.returncode, done.stderr.decode().strip()))
    out = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    return out + [None] * (len(values) - len(out))


def compare(name, what, wanted, found):
    bad = [i for i, (w, f) in enumerate(zip(wanted, found)) if w != f]
    for i in bad[:3]:
        print("%s: %s %d: %r, expected %r" % (name, what, i + 1, found[i], wanted[i]))
    return len(wanted) - len(bad), len(bad)


def check(spectool, name, source, golden, decode):
    texts = [r["text"] for r in golden]
    both = golden + decode
    ids, special = [r["ids"] for r in golden], [r["ids_special"] for r in golden]
    plain = [r["decoded"] for r in both] + [r.get("decoded_special", r["decoded"]) for r in golden]
    # Each kind of check runs one process, which loads the tokenizer once.
    checks = [
        ("tokenize", [], texts, ids, "ids"),
        ("tokenize", ["--special"], texts, special, "ids with specials"),
        ("detokenize", [], [r["ids"] for r in both] + special, plain, "text"),
        ("detokenize", ["--skip-special"], [r["ids"] for r in both],
         [r.get("decoded_skip", r["decoded"]) for r in both], "text without specials"),
    ]
    results = [compare(name, what, wanted, batch(spectool, command, source, options, values))
               for command, options, values, wanted, what in checks]
    return sum(r[0] for r in results), sum(r[1] for r in results)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    spectool, root = sys.argv[1], pathlib.Path(sys.argv[2])
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for golden in sorted(root.rglob("golden.jsonl")):
            source = golden.parent / "tokenizer.json"
            if not source.exists():
                packed = golden.parent / "tokenizer.json.zst"
                if not packed.exists() or not shutil.which("zstd"):
                    continue
                source = pathlib.Path(scratch) / "tokenizer.json"
                subprocess.run(["zstd", "-dqf", packed, "-o", source], check=True)
            decode = rows(golden.parent / "decode_golden.jsonl")
            p, f = check(spectool, golden.parent.name, source, rows(golden), decode)
            passed, failed = passed + p, failed + f
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


main()

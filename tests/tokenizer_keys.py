#!/usr/bin/env python3
"""Sweeps the keys of tokenizer.json and tokenizer_config.json: which of them change nothing?

    tests/tokenizer_keys.py path/to/spectool path/to/tokenizers [path/to/keys_without_effect.txt]

Each key of each small tokenizer below gets other values, one at a time. A key has an effect if some value changes ids or
texts, or is refused. The keys that never have one must be those of the list; without a list they are printed."""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

TEXTS = ["Hello  World, it's 12345 caf\u00e9 cafe\u0301 \u4e2d\u6587 don't\n\n x", " a<s>b</s> [CLS]c[SEP] <unk> \ud83d\ude00"
         .encode("utf-16", "surrogatepass").decode("utf-16"), "ABC abc\tA  B \u2581x \u00bd \uff21", "", "zzz qqq <|endoftext|> [MASK] x", "a <new> b"]
# What transformers 5 and 4 write to tokenizer_config.json, for a tokenizer that has none of its own.
CONFIG = {"add_bos_token": False, "add_eos_token": False, "add_prefix_space": False, "additional_special_tokens": [], "backend":
          "tokenizers", "bos_token": None, "clean_up_tokenization_spaces": False, "cls_token": None, "do_lower_case": False,
          "eos_token": None, "errors": "replace", "extra_special_tokens": {}, "is_local": False, "legacy": False, "mask_token":
          None, "model_max_length": 4096, "pad_token": None, "padding_side": "left", "processor_class": None, "sep_token": None,
          "sp_model_kwargs": {}, "split_special_tokens": False, "tokenizer_class": "PreTrainedTokenizerFast",
          "truncation_side": "left", "unk_token": None, "use_default_system_prompt": False, "use_fast": True}
MOST = 4  # elements of a list whose members are changed


def run(spectool, command, folder, options, values):
    text = "".join(json.dumps(v) + "\n" for v in values)
    done = subprocess.run([spectool, command, str(folder), "--batch", *options], input=text.encode(), capture_output=True)
    return done.returncode, done.stdout


def result(spectool, folder):
    status, ids = run(spectool, "tokenize", folder, ["--ids", "--special"], TEXTS)
    if status:
        return status
    plain = [json.loads(line) for line in ids.decode().split("\n") if line]
    return ids, run(spectool, "detokenize", folder, ["--skip-special"], plain)[1]


def others(value):
    """Other values for one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value + 1, 1 if value != 1 else 0]
    if isinstance(value, str):
        return [value + "x", "a", ""]
    if value is None:
        return [True, 1, "<new>", {"type": "Lowercase"}]
    return [value[:-1], [], ["<new>"]] if isinstance(value, list) else [None, {"new_token": "<new>"}]


def places(value, name, found):
    """Adds (name of the key, container, key) for each key below."""
    if isinstance(value, list):
        for element in value[:MOST]:
            places(element, name, found)
    elif isinstance(value, dict):
        name = value.get("type") if isinstance(value.get("type"), str) else name
        for key, member in value.items():
            if key == "type" or name in ("vocab", "SpecialToken", "Sequence") and not isinstance(member, (dict, list)):
                continue
            label = "token" if key.isdigit() or name == "special_tokens" else f"{name}.{key}"
            found.append((label, value, key))
            if key not in ("vocab", "merges", "precompiled_charsmap"):
                places(member, "AddedToken" if key == "added_tokens" else "special token" if name == "special_tokens" else key, found)


def sweep(spectool, source, effects):
    files = {n: json.loads((source / n).read_text(encoding="utf-8")) for n in ("tokenizer.json", "tokenizer_config.json")
             if (source / n).exists()}
    files.setdefault("tokenizer_config.json", dict(CONFIG))
    with tempfile.TemporaryDirectory() as folder:
        def write():
            for name, value in files.items():
                pathlib.Path(folder, name).write_text(json.dumps(value), encoding="utf-8")
            return result(spectool, folder)

        before = write()
        for name, root in files.items():
            found = []
            places(root, name[:-len(".json")], found)
            for label, container, key in found:
                if effects.get(label):
                    continue
                value = container[key]
                for other in others(value):
                    container[key] = other
                    if write() != before:
                        effects[label] = True
                        break
                else:
                    effects.setdefault(label, False)
                container[key] = value


def main():
    effects = {}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: sweep(sys.argv[1], path.parent, effects),
                      sorted(pathlib.Path(sys.argv[2]).rglob("tokenizer.json"))))
    without = sorted(label for label, has in effects.items() if not has)
    if len(sys.argv) < 4:
        print("\n".join(without))
        return 0
    listed = [line.split("\t")[0] for line in open(sys.argv[3], encoding="utf-8")]
    for label in sorted(set(without) ^ set(listed)):
        print(label, "has no effect and is not listed" if label in without else "is listed and has an effect, or is gone")
    print(len(effects), "keys,", len(without), "without effect")
    return without != sorted(listed)


if __name__ == "__main__":
    sys.exit(main())

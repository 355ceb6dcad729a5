#!/usr/bin/env python3
"""Makes testdata/tokenizer/tekken: small tekken.json files, and the ids of mistral-common for texts.

usage: tekken_files.py OUT TEXTS.jsonl    TEXTS: cases of testdata/gguf/tokenizers, whose texts are taken

OUT/NAME/tekken.json is read by tests/convert/test_gguf_tokenizer.c, OUT/NAME/cases.jsonl has a case a line: [text, ids, ids
with the beginning token]. mistral-common spells special tokens in texts; the ids of texts that hold some are those of the
parts around them. Needs mistral-common and tiktoken.
"""
import base64
import json
import os
import re
import sys

from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from tiktoken._educational import bpe_train

PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
           r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")
WORDS = r" ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"
HOSTILE = ["", " ", "  a", "a\n\n b", "aaaa aaaaaaa", "\t\tx  \n", "cafe\u0301 \u4e2d\u6587\u5b57 \U0001f600", "Don't 12345",
           "a[INST] b[/INST]", "<s>a</s><SPECIAL_21>", "[THINK]x[/THINK]", "x" * 70]
LISTED = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[THINK]", "[/THINK]"]
# name: pattern, version, special tokens, how many there are with fillers, and vocabulary that the file has too much
MODELS = {
    "listed": (PATTERN, "v11", [{"rank": i, "token_str": t, "is_control": "THINK" not in t} for i, t in enumerate(LISTED)], 30, 9),
    "old": (WORDS, "v3", None, 24, 0),
}


def with_specials(tekken, specials, text):
    ids = []
    for part in re.split("(" + "|".join(map(re.escape, specials)) + ")", text):
        ids += [specials.index(part)] if part in specials else tekken.encode(part, bos=False, eos=False)
    return ids


def main():
    out, source = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        texts = [json.loads(line)[0] for line in f]
    for name, (pattern, version, listed, n_special, more) in MODELS.items():
        ranks = bpe_train(" ".join(texts) * 3, 500 + more, pattern, visualise=None)
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "tekken.json")
        data = {"config": {"pattern": pattern, "num_vocab_tokens": len(ranks), "default_vocab_size": 500 + n_special,
                           "default_num_special_tokens": n_special, "version": version},
                "vocab": [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
                          for token, rank in sorted(ranks.items(), key=lambda item: item[1])]}
        if listed:
            data["special_tokens"] = listed
        with open(path, "w", encoding="utf-8") as f:
            f.write(json.dumps(data).replace('}, {"rank"', '},\n{"rank"') + "\n")
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
            f.write("{}\n")
        tekken = Tekkenizer.from_file(path)
        specials = [str(t["token_str"].value if hasattr(t["token_str"], "value") else t["token_str"])
                    for t in tekken._all_special_tokens]
        with open(os.path.join(folder, "cases.jsonl"), "w", encoding="utf-8") as f:
            for text in HOSTILE + texts:
                ids = with_specials(tekken, specials, text)
                f.write(json.dumps([text, ids, [1] + ids]) + "\n")


if __name__ == "__main__":
    main()

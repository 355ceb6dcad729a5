#!/usr/bin/env python3
"""Makes testdata/tokenizer/sentencepiece: small tokenizer.model files, and the ids of sentencepiece for texts.

usage: sentencepiece_files.py OUT TEXTS.jsonl    TEXTS: cases of testdata/gguf/tokenizers, whose texts are taken

OUT/NAME/tokenizer.model and tokenizer_config.json are read by tests/runtime/test_sentencepiece.c, OUT/NAME/cases.jsonl
has a case a line: [text, ids, ids with the tokens that the class adds]; of LlamaTokenizer those of transformers 5, which
treats spaces at the beginning in its own way. Needs sentencepiece and transformers.
"""
import io
import json
import os
import re
import sys
import tempfile

import sentencepiece
import transformers

HOSTILE = ["", " ", "  a", "a  ", "  a   b  ", "a\nb", "\n a", "a\t b", "\u2581a \u2581", "x\u00a0y", "\uff21\ufb01 x",
           "cafe\u0301  \u2460", "\u4e2d\u6587\u5b57", "\U0001f600 !", "don't", "1234 56", "A" * 70, "a<s> b", "<s>a b</s> c", "<unk>x"]
RULES = {"\uff21": "A", "\ufb01": "fi", "\u00a0": " ", "\u2460": "1", "e\u0301": "\u00e9", "\t": " "}

# name: trainer's options, class, its members, and the tokens that it adds: (beginning, end)
MODELS = {
    "llama": ({"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
               "remove_extra_whitespaces": False},
              "LlamaTokenizer", {}, (True, False)),
    "legacy": ({"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
                "remove_extra_whitespaces": False},
               "LlamaTokenizer", {"legacy": True}, (True, False)),
    "bare": ({"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
              "remove_extra_whitespaces": False, "add_dummy_prefix": False, "bos_id": -1, "eos_id": 1},
             "GemmaTokenizer", {"add_eos_token": True}, (False, True)),
    "mapped": ({"model_type": "bpe", "normalization_rule_tsv": RULES}, "InternLM2Tokenizer", {"add_bos_token": False},
               (False, False)),
    "unigram": ({"model_type": "unigram", "vocab_size": 220, "normalization_rule_tsv": RULES}, "T5Tokenizer", {}, (False, True)),
    "bytes": ({"model_type": "unigram", "vocab_size": 460, "byte_fallback": True, "normalization_rule_name": "identity",
               "remove_extra_whitespaces": False}, "OrionTokenizer", {"add_eos_token": True}, (True, True)),
}


def train(texts, options):
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as tsv:
        rules = options.get("normalization_rule_tsv")
        for a, b in (rules or {}).items():
            tsv.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        tsv.flush()
        if rules:
            options = options | {"normalization_rule_tsv": tsv.name}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=model,
                                                 **{"vocab_size": 500, "character_coverage": 0.98, "minloglevel": 2} | options)
    return model.getvalue()


def main():
    out, source = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        texts = [json.loads(line)[0] for line in f]
    for name, (options, tokenizer_class, members, (bos, eos)) in MODELS.items():
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        model = train(texts, options)
        sp = sentencepiece.SentencePieceProcessor(model_proto=model)
        with open(os.path.join(folder, "tokenizer.model"), "wb") as f:
            f.write(model)
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
            json.dump({"tokenizer_class": tokenizer_class} | members, f)
            f.write("\n")
        own = tokenizer_class == "LlamaTokenizer"
        t = transformers.AutoTokenizer.from_pretrained(folder) if own else None
        with open(os.path.join(folder, "cases.jsonl"), "w", encoding="utf-8") as f:
            for text in HOSTILE + texts[::4]:
                if not own and re.search("<(s|unk)>", text):
                    continue
                ids = t.encode(text, add_special_tokens=False) if own else sp.encode(text)
                whole = [sp.bos_id()] * bos + ids + [sp.eos_id()] * eos
                f.write(json.dumps([text, ids, whole]) + "\n")


main()

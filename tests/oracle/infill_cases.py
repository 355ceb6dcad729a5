#!/usr/bin/env python3
"""Print small tokenizers with the fill-in-the-middle tokens of model families, and the prompts for gaps.

    tests/oracle/infill_cases.py > testdata/tokenizer/infill.jsonl

The texts are encoded by the `tokenizers` library: with a tokenizer that lacks the tokens where they are special, since
text that spells a special token stays text; and for sentencepiece-like tokenizers all but the prefix is encoded by one
that puts no space before a text. The prompts are put together as the families publish them: Qwen2.5-Coder (arXiv 2409.12186), StarCoder 2 (2402.19173), DeepSeek-Coder (2401.14196),
CodeLlama (2308.12950) and Codestral (mistral_common's encode_fim). One JSON object per line: name, tokenizer (a
tokenizer.json), ends (ids that end the text), cases: {prefix, suffix, begun, extra: [[name, text]], most, ids}. A
tokenizer without such tokens has no cases."""
import copy
import json

from tokenizers import Tokenizer

ALPHABET = [chr(c) for c in list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))]
OTHERS = [b for b in range(256) if chr(b) not in ALPHABET]
SPELL = {**{ord(c): c for c in ALPHABET}, **{b: chr(256 + i) for i, b in enumerate(OTHERS)}}


def add(tokens, text, special):
    tokens.append({"id": 0, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                   "normalized": False, "special": special})


def byte_level():
    """A byte-level BPE without a token before a text."""
    vocab = {SPELL[b]: b for b in range(256)}
    merges = ["d e", "de f", "\u0120 \u0120", "p r", "i n", "pr in", "r e", "\u010a \u010a"]
    for pair in merges:
        vocab[pair.replace(" ", "")] = len(vocab)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": merges}}


def sentencepiece(prepend=True):
    """A BPE over characters, with a space before and <s> before a text."""
    names = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    names += ["\u2581"] + [chr(c) for c in range(0x21, 0x7F)]
    merges = ["d e", "de f", "\u2581 def", "\u2581 \u2581", "p r", "\u2581 pr", "i n", "r e", "\u2581 re"]
    for pair in merges:
        names.append(pair.replace(" ", ""))
    vocab = {name: i for i, name in enumerate(names)}
    added = []
    for name in names[:3]:
        add(added, name, True)
        added[-1]["id"] = vocab[name]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    first = [{"type": "Prepend", "prepend": "\u2581"}] if prepend else []
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": first + [replace]}, "pre_tokenizer": None,
            "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                                                        {"Sequence": {"id": "A", "type_id": 0}}],
                               "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": vocab, "merges": merges}}


def encode(tokenizer, text):
    return Tokenizer.from_str(json.dumps(tokenizer)).encode(text, add_special_tokens=False).ids


class Family:
    def __init__(self, name, tokens, special, spm=False, repo=None, file=None, ends=(), suffix_first=False, bos=()):
        self.base = sentencepiece() if spm else byte_level()
        self.inner = sentencepiece(False) if spm else self.base
        self.name, self.repo, self.file, self.bos, self.suffix_first = name, repo, file, list(bos), suffix_first
        self.tokens, self.ends = tokens, ends
        self.whole = copy.deepcopy(self.base)
        self.id = {}
        for text in [*tokens, *filter(None, (repo, file)), *ends]:
            add(self.whole["added_tokens"], text, special)
            self.id[text] = self.whole["added_tokens"][-1]["id"] = len(self.base["model"]["vocab"]) + len(self.id)
        if not special:
            self.base = self.inner = self.whole

    def extras(self, extra, room):
        if not extra:
            return []
        head = [self.id[self.repo]] + encode(self.inner, "repository\n") if self.repo else []
        own = [self.id[self.file]] + encode(self.inner, "file") + encode(self.inner, "\n") if self.file else []
        kept = []
        for name, text in reversed(extra):
            if self.file:
                one = [self.id[self.file]] + encode(self.inner, name) + encode(self.inner, "\n")
            else:
                one = encode(self.inner, "\n\n--- snippet ---\n\n")
            one += encode(self.inner, text)
            if len(head) + len(one) + len(kept) + len(own) > room:
                break
            kept = one + kept
        return head + kept + own if kept else []

    def prompt(self, prefix, suffix, begun="", extra=(), most=0):
        before = encode(self.base, prefix) + encode(self.inner, begun)
        after = encode(self.inner, suffix)
        if most:
            room = most - len(self.bos) - 3
            if len(before) + len(after) > room:
                quarter = room // 4
                after = after[:max(quarter, room - len(before))]
                before = before[len(before) - min(len(before), room - len(after)):]
            left = room - len(before) - len(after)
        else:
            left = 1 << 40
        parts = [[self.id[self.tokens[0]]] + before, [self.id[self.tokens[1]]] + after]
        if self.suffix_first:
            parts.reverse()
        else:
            parts.append([self.id[self.tokens[2]]])
        return self.bos + self.extras(list(extra), left) + sum(parts, [])

    def line(self):
        cases = []
        files = [["a.py", "x = 1\n"], ["b/c.py", "def g():\n    return 2\n"]]
        for prefix, suffix, begun, extra, most in (
                ("def f(a):\n    ", "\n\nprint(f(1))\n", "", [], 0), ("", "  tail", "", [], 0), ("head", "", "", [], 0),
                ("def f():\n", "\n", "  re", [], 0), ("x = ", " # %s" % self.tokens[0], "", [], 0),
                ("def", "print", "", files, 0), ("def", "print", "", files, 45), ("def", "print", "", files, 80),
                ("abcdefgh" * 8, "print" * 8, "", files, 24), ("ab", "xyz" * 20, "", [], 24), ("xyz" * 20, "ab", "", [], 24)):
            cases.append({"prefix": prefix, "suffix": suffix, "begun": begun, "extra": extra, "most": most,
                          "ids": self.prompt(prefix, suffix, begun, extra, most)})
        ends = [self.id[t] for t in [*filter(None, (self.repo, self.file)), *self.ends]]
        return {"name": self.name, "tokenizer": json.dumps(self.whole), "ends": ends, "cases": cases}


bar, low = "\uff5c", "\u2581"
FAMILIES = [
    Family("qwen2.5-coder", ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"], False, repo="<|repo_name|>",
           file="<|file_sep|>", ends=["<|endoftext|>", "<|fim_pad|>"]),
    Family("starcoder2", ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"], True, repo="<repo_name>", file="<file_sep>",
           ends=["<|endoftext|>", "<fim_pad>"]),
    Family("starcoder", ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"], True, repo="<reponame>", file="<filename>",
           ends=["<|endoftext|>", "<fim_pad>"]),
    Family("santacoder", ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"], True, ends=["<|endoftext|>", "<fim-pad>"]),
    Family("deepseek-coder", [f"<{bar}fim{low}begin{bar}>", f"<{bar}fim{low}hole{bar}>", f"<{bar}fim{low}end{bar}>"],
           False),
    Family("glm-4.5", ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"], True, ends=["<|endoftext|>"]),
    Family("codellama", [low + "<PRE>", low + "<SUF>", low + "<MID>"], True, spm=True, ends=[low + "<EOT>"], bos=[1]),
    Family("codestral", ["[PREFIX]", "[SUFFIX]"], True, spm=True, suffix_first=True, bos=[1]),
]
for family in FAMILIES:
    print(json.dumps(family.line()))
print(json.dumps({"name": "none", "tokenizer": json.dumps(byte_level()), "ends": [], "cases": []}))

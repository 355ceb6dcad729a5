#!/usr/bin/env python3
"""Print small tokenizers, one feature each, with the results of the `tokenizers` library on difficult texts.

    pip install tokenizers==0.22.2 sentencepiece==0.2.3 protobuf    (0.23.3 gives the same for wordpiece, unigram and number_groups)
    tests/oracle/tokenizer_cases.py > testdata/tokenizer/cases.jsonl

One JSON object per line: name, tokenizer (a tokenizer.json), cases: [text, ids, ids with special
tokens added, ids with special tokens in the text taken as text], decodes: [ids, text, text without
special tokens]. Additions to Unicode after version 9 are avoided, as in the reference texts, except those
that the library's normalizers do not support."""
import base64
import io
import json
import random
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

ALPHABET = [chr(c) for c in list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))]
OTHERS = [b for b in range(256) if chr(b) not in ALPHABET]
SPELL = {**{ord(c): c for c in ALPHABET}, **{b: chr(256 + i) for i, b in enumerate(OTHERS)}}

PIECES = [
    "a", "b", "the", "Hello", " ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "don't", "'\u017f", "1", "23", "4567", "\u00b2",
    "\u00bd", "\u2167", "\u0663", "\u00e9", "e\u0301", "\u0301", "\u0323", "\u0327", "\uff21", "\ufb01", "\u0130", "\u00df",
    "\u4e2d\u6587", "\u65e5\u672c\u8a9e", "\u30ab", "\ud55c\uad6d", "\u1100\u1161\u11a8", "\uac00\u11a8",
    "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e44\u0e17\u0e22", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\u200d",
    "\ufeff", "\u180e", "\U0001f600", "\u2581", "\u2581\u2581", "\u0120", "<", "<t>", "<t><u>", "<u>", "word", "sword",
    "<s>", "</s>", "<unk>", "<0x41>", "<0xE2>", "!", "...", "?!", "-", "_", "$", "+", "^", "`", "|", "~", "(", ")", "[", "]",
    "{", "}", "\"", "\\", "/", ".", ",", "A", "Z", "ABC", "\x00", "\x1c", "\x7f", "\u20dd", "\u24d0", "\u01c5", "\u02b0",
    "\u1e9b\u0323", "\u212b", "\u0344", "\uf900", "q\u0307\u0323", "x" * 45, "ab" * 30,
]


def base():
    vocab = {SPELL[b]: b for b in range(256)}
    merges = []
    for pair in ["a b", "t h", "th e", "\u0120 \u0120", "H e", "l l", "He ll", "Hell o", "\u0120 the", "ab ab", "x x", "xx xx",
                 "\u00c3 \u00a9", "\u00e4 \u00b8", "\u00e4\u00b8 \u0143", "w o", "r d", "wo rd", "' s", "\u010a \u010a"]:
        merges.append(pair)
        vocab.setdefault(pair.replace(" ", ""), len(vocab))
    split = {"type": "Split", "behavior": "Isolated", "invert": False, "pattern": {
        "Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"}}
    return {"version": "1.0", "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, BYTES]}, "post_processor": None,
            "decoder": {**BYTES, "use_regex": True}, "model": {"type": "BPE", "vocab": vocab, "merges": merges}}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
SPM_DECODER = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
               {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}


def spm(all_bytes=True):
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for b in range(256):
        if all_bytes or b % 3:
            vocab["<0x%02X>" % b] = len(vocab)
    for c in "abthelowrdHx'sABC.,!12\u2581\u00e9\u4e2d":
        vocab.setdefault(c, len(vocab))
    merges = []
    for left, right in [("\u2581", "t"), ("h", "e"), ("\u2581t", "he"), ("l", "l"), ("H", "e"), ("He", "ll"), ("Hell", "o"),
                        ("\u2581", "\u2581"), ("a", "b"), ("ab", "ab"), ("x", "x"), ("xx", "xx"), ("\u2581", "Hello"),
                        ("w", "o"), ("r", "d"), ("wo", "rd"), ("'", "s")]:
        merges.append([left, right])
        vocab.setdefault(left + right, len(vocab))
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    added = [added_token(i, t, special=True) for i, t in enumerate(["<unk>", "<s>", "</s>"])]
    return {"version": "1.0", "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                           {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "pre_tokenizer": None, "post_processor": template, "decoder": SPM_DECODER,
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab,
                      "merges": merges}}


def wordpiece(cleanup=True, **normalizer):
    vocab = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])}
    words = "the hell hello word don his then".split()
    for c in "abdehilnorstwxzABCHXZLu0123456789'!?.,-_$+^`|~()[]{}\\\"/<>#\u00e9\u0301\u4e2d\u6587\u65e5\u672c\u8a9e\u30ab\u0e44\u1100":
        vocab.setdefault(c, len(vocab))
        vocab.setdefault("##" + c, len(vocab))
    for t in words + ["##ll", "##lo", "##rd", "##ab", "##xx", "##\u00e9b", "Hello", "##\ud55c"]:
        vocab.setdefault(t, len(vocab))
    settings = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    return {"version": "1.0", "added_tokens": [added_token(i, t, special=True) for t, i in vocab.items() if i < 4],
            "normalizer": {"type": "BertNormalizer", **settings, **normalizer},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": cleanup},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": vocab}}


# Keys that begin with other keys, keys of several characters in one grapheme cluster, and an empty replacement.
RULES = {"\r": " ", "\t": " ", "\n": " ", "\u3000": " ", "\u00a0": " ", "\uff21": "A", "\ufb01": "fi", "\u00bd": "1\u20442",
         "e\u0301": "\u00e9", "q": "k", "o\u0327": "ox", "\u200b": "", "\u0301": "'", "\u1100\u1161\u11a8": "\uac01",
         "\u2167": "VIII", "\u212b": "\u00e5", "...": "\u2026", "\uac00": "ga", "\U0001f600": ":)", "x\u0323": "y"}


def charsmap():
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
        for source, target in RULES.items():
            f.write("%s\t%s\n" % tuple(" ".join("%X" % ord(c) for c in part) for part in (source, target)))
        f.flush()
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the hello word"] * 9), model_writer=out, vocab_size=16, hard_vocab_limit=False,
            normalization_rule_tsv=f.name, minloglevel=2)
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()


def unigram(normalizer, split=True, all_bytes=False):
    vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    if all_bytes:
        vocab += [["<0x%02X>" % b, -20.0] for b in range(256)]
    words = "\u2581 \u2581the \u2581hello \u2581H the hell ello lo word \u2581wo rd ab abab xx xxxx ga fi VIII don 's \u2581\u2581"
    for i, t in enumerate([*words.split(), *"abdehlorstwxABCHVI0123!?.,'-\u00e9\u4e2d\u65e5\u0e44\u2044"]):
        vocab.append([t, -1.25 - (i * 37 % 23) / 7 - (i > 20)])
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": split}
    pre = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]} if split else metaspace
    around = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
              {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
              "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
              "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in [("<s>", 0), ("</s>", 2)]}}
    return {"version": "1.0", "added_tokens": [added_token(i, vocab[i][0], special=True) for i in range(4)],
            "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": around, "decoder": metaspace,
            "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": all_bytes}}


def added_token(i, content, **flags):
    token = dict(id=i, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
    return {**token, **flags}


def with_added(j, specs):
    vocab, n = j["model"]["vocab"], len(j["model"]["vocab"])
    for content, flags in specs:
        known = vocab.get(content)
        j["added_tokens"].append(added_token(n if known is None else known, content, **{f: True for f in flags.split()}))
        n += known is None
    return j


def change(j, **changes):
    j = {**j, "model": dict(j["model"])}
    for key, value in changes.items():
        (j if key in j else j["model"])[key] = value
    return j


FLAGS = [("<t>", "special"), ("<t><u>", ""), ("<u>", "special lstrip"), ("<s>", "rstrip special"), ("word", "single_word"),
         ("\u00e9", "normalized"), ("</s>", "lstrip rstrip single_word special"), ("  ", "lstrip rstrip"), ("the", "normalized"),
         ("a b", "normalized special"), ("\u4e2d", "single_word rstrip"), ("\uac00\u11a8", "normalized")]


def tokenizers():
    yield "byte_level", base()
    yield "ignore_merges", change(base(), ignore_merges=True)
    yield "prefix_space", change(base(), pre_tokenizer={**BYTES, "add_prefix_space": True, "use_regex": True})
    yield "added", with_added(change(base(), normalizer={"type": "NFC"}), FLAGS)
    yield "added_spm", with_added(spm(), FLAGS[:2] + FLAGS[4:5] + FLAGS[7:10])
    yield "spm", spm()
    yield "spm_some_bytes", spm(False)
    yield "spm_no_bytes", change(spm(), byte_fallback=False)
    yield "spm_no_fuse", change(spm(False), byte_fallback=False, fuse_unk=False)
    yield "decoder_null", change(spm(), decoder=None)
    around = json.loads(json.dumps(spm()["post_processor"]))
    around["single"].append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    around["special_tokens"]["</s>"] = {"id": "</s>", "ids": [2], "tokens": ["</s>"]}
    both = {"type": "Sequence", "processors": [BYTES, around]}
    yield "template", change(spm(), post_processor=both)
    for scheme in ["always", "first", "never"]:
        for split in [True, False]:
            m = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}
            yield "metaspace_%s_%d" % (scheme, split), change(spm(), normalizer=None, pre_tokenizer=m, decoder=m)
    for n in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "ByteLevel"]:
        yield "normalizer_" + n, change(base(), normalizer={"type": n})
    yield "replace_regex", change(base(), normalizer={"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "})
    pres = [{"type": t} for t in ["Whitespace", "WhitespaceSplit", "BertPreTokenizer"]]
    pres += [{"type": "Punctuation", "behavior": b} for b in
             ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]]
    pres += [{"type": "Digits", "individual_digits": d} for d in [True, False]]
    pres += [{"type": "CharDelimiterSplit", "delimiter": "a"}, {"type": "FixedLength", "length": 3}]
    for p in pres:
        name = "_".join(str(v) for v in p.values())
        yield name, change(base(), pre_tokenizer={"type": "Sequence", "pretokenizers": [p, BYTES]})
        if p["type"] in ("Whitespace", "FixedLength"):
            yield name + "_late", change(base(), pre_tokenizer={"type": "Sequence", "pretokenizers": [BYTES, p]})
    regexes = [r"\w+", r"\W", r"\b", r"\B", r"\d+|\s", r"[^\w]", r"[\W_]+", r"[^a\W]+", "^.", "$", "a*", "(?i)the|he", "x?",
               r"\h+", "[[:punct:]]+", "[[:alpha:]]", "[[:space:]]", "[[:upper:]]+", r"\p{L}{2}+", r"\p{L}{2}?", r"\p{L}{,2}.",
               "(?m:.)+", ".+", "(?<=a)b|(?=c)", r"\p{Han}+", r"\d{1,3}(?=(?:\d{3})*\b)", r"(?:a|b)++c?", r"[[:alnum:]]+",
               r"\p{^L}+", r"\S+$", r"\S[\S]", r"\u4e2d", r"\x41|\x{1F600}", "(?<n>a)b*", r"[\s\-]"]
    behaviors = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    for i, x in enumerate(regexes):
        s = {"type": "Split", "pattern": {"Regex": x}, "behavior": behaviors[i % 5], "invert": i % 7 == 3}
        yield "split " + x, change(base(), pre_tokenizer={"type": "Sequence", "pretokenizers": [s, BYTES]})
    s = {"type": "Split", "pattern": {"String": "ab"}, "behavior": "MergedWithNext", "invert": False}
    yield "split string", change(base(), pre_tokenizer={"type": "Sequence", "pretokenizers": [s, BYTES]})
    decoders = [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
                {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "a", "start": 2, "stop": 2}]},
                {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
                 {"type": "Replace", "pattern": {"Regex": "[a-e]\u2581"}, "content": "#"}]},
                {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "a"}, "content": ""},
                 {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}]}]
    for i, d in enumerate(decoders):
        yield "decoder_%d" % i, change(spm(), decoder=d)
    yield "wordpiece", wordpiece()
    yield "wordpiece_cased", wordpiece(lowercase=False)
    yield "wordpiece_accents", wordpiece(strip_accents=False)
    yield "wordpiece_stripped", wordpiece(cleanup=False, lowercase=False, strip_accents=True, clean_text=False)
    yield "wordpiece_added", with_added(wordpiece(), FLAGS[:5])
    mapped = {"type": "Precompiled", "precompiled_charsmap": charsmap()}
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    yield "unigram", unigram(mapped)
    yield "unigram_spaces", unigram({"type": "Sequence", "normalizers": [mapped, spaces]}, split=False)
    yield "unigram_bytes", unigram(None, split=False, all_bytes=True)
    for side in ["left", "right", "both"]:
        strip = {"type": "Strip", "strip_left": side != "right", "strip_right": side != "left"}
        yield "strip_" + side, unigram({"type": "Sequence", "normalizers": [strip, spaces]}, split=False)


# Around characters with a combining class or a decomposition that came after Unicode 9, and the
# code point before the first Hangul final.
NEWER = ["a\u0899\u0301", "a\u0301\u1df6\u0323", "e\u0323\U0001193d\u0301", "\U00011935\U00011930 \U00011938",
         "\u32ff\ua7f2\uab69\U00010784\U0001fbf5", "\uac00\u11a7\u11a8", "\u1100\u1161\u11a7 \uac01\u11a7",
         "a\U0001e4ec\u0301\u0344", "o\u0327\u0d3b\u0302\u0328"]

# Numbers in groups of three from the right, as in the tokenizer.json of Trinity: \\G is the end of the last match.
GROUPS = [r"\p{Nd}{1,510}(?=(?>\p{Nd}{510})*(?:\P{Nd}|$))|\G\p{Nd}{510}", r"\A\p{Nd}{1,2}(?=\p{Nd}{3}+\z)",
          r"\A\p{Nd}{3}|\G\p{Nd}{3}"]
NUMBERS = ["1", "12", "123", "1234", "x1234567y 12 34567.890", "12345678 1111 22222222", "7" * 1021 + "a" + "5" * 512,
           "\u0661\u0662\u0663\u0664 12\n345678", "a1b22c333d4444e55555", ""]


def groups():
    j = base()
    vocab, merges = j["model"]["vocab"], j["model"]["merges"]
    for a in "1234567890":
        for b in "1234567890":
            merges.append(a + " " + b)
            vocab.setdefault(a + b, len(vocab))
    for a in "1234567890":
        for b in [x + y for x in "1234567890" for y in "1234567890"]:
            merges.append(b + " " + a)
            vocab.setdefault(b + a, len(vocab))
            merges.append(a + " " + b)
    splits = [{"type": "Split", "behavior": "Isolated", "invert": False, "pattern": {"Regex": g}} for g in GROUPS]
    return change(j, pre_tokenizer={"type": "Sequence", "pretokenizers": splits + [BYTES]})


def main():
    r = random.Random(20250601)
    for name, j in tokenizers():
        t = Tokenizer.from_str(json.dumps(j))
        n_ids = t.get_vocab_size(True)
        marks = [a["content"] for a in j["added_tokens"]]
        cases, decodes = [], []
        while len(cases) < 10:
            k = r.choice([0, 1, 2, 4, 8, 12])
            text = "".join(r.choice(marks) if marks and r.random() < 0.3 else r.choice(PIECES) for _ in range(k))
            t.encode_special_tokens = True
            plain = t.encode(text, add_special_tokens=False).ids
            t.encode_special_tokens = False
            ids = t.encode(text, add_special_tokens=False).ids
            cases.append([text, ids, t.encode(text).ids, plain])
            for listed in (ids, r.choices(range(n_ids + 2), k=r.choice([1, 3, 6]))):
                try:
                    decodes.append([listed, t.decode(listed, skip_special_tokens=False),
                                    t.decode(listed, skip_special_tokens=True)])
                except BaseException:
                    pass  # Strip panics if it removes the whole text from both ends
        print(json.dumps({"name": name, "tokenizer": j, "cases": cases, "decodes": decodes}, ensure_ascii=False,
                         separators=(",", ":")))
    for form in ["NFC", "NFD", "NFKC", "NFKD", "StripAccents"]:
        j = change(base(), normalizer={"type": form})
        t = Tokenizer.from_str(json.dumps(j))
        cases = [[text] + 3 * [t.encode(text).ids] for text in NEWER]
        print(json.dumps({"name": "newer_" + form, "tokenizer": j, "cases": cases, "decodes": []}, ensure_ascii=False,
                         separators=(",", ":")))

    j = groups()
    t = Tokenizer.from_str(json.dumps(j))
    cases = [[text] + 3 * [t.encode(text).ids] for text in NUMBERS]
    print(json.dumps({"name": "number_groups", "tokenizer": j, "cases": cases, "decodes": []}, ensure_ascii=False,
                     separators=(",", ":")))


main()

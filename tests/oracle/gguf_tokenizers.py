#!/usr/bin/env python3
"""Write testdata/gguf/tokenizers: python3 gguf_tokenizers.py OUT MINI

For each split rule a GGUF file that holds nothing but the vocabulary of a small tokenizer.json (MINI is
../shared/tokenizers/mini), and NAME.jsonl: [text, ids without added tokens, ids with them] by the tokenizers library,
from the golden values beside it. For SentencePiece, two vocabularies are trained here, and the ids are sentencepiece's
own; so for Unigram, in XLM-RoBERTa's order and with a map of characters. Two vocabularies of WordPiece, one of them
with capitals, are trained by the tokenizers library. Needs gguf, sentencepiece with
protobuf, and tokenizers."""
import io
import json
import os
import re
import sys
import tempfile

import gguf
import sentencepiece
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

# folder of MINI: tokenizer.ggml.pre
BYTE_LEVEL = {"bl_gpt2": "gpt-2", "bl_smollm2": "smollm", "bl_qwen2_nfc": "qwen2", "bl_llama3": "llama-bpe",
              "bl_o200k": "gpt-4o", "bl_tekken": "tekken"}
# Their texts are not among those that SentencePiece is trained on.
NEWER = {"bl_qwen35_nfc": "qwen35", "bl_deepseek": "deepseek-v3", "gemma": "gemma4"}
# Another rule for the vocabulary of a folder above.
OTHERS = {"gemma": "granite-embed-multi-311m"}
N_CASES = 40

# What tokenizer.json has of models whose tokenizer is not in MINI, or, of Kimi, its tiktoken pattern.
REST = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
FIRST = r"[^\r\n\p{L}\p{N}]?"
HAN = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
OLD_HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*" + REST)
SPLITS = {
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", OLD_HAN, r"\p{N}"],
    "kimi-k2": [r"[\p{Han}]+"
                rf"|{FIRST}[{UPPER}&&[^\p{{Han}}]]*[{LOWER}&&[^\p{{Han}}]]+{CONTRACTION}?"
                rf"|{FIRST}[{UPPER}&&[^\p{{Han}}]]+[{LOWER}&&[^\p{{Han}}]]*{CONTRACTION}?"
                r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + REST],
    "afmoe": [r"\p{Nd}{1,510}(?=(?>\p{Nd}{510})*(?:\P{Nd}|$))|\G\p{Nd}{510}", r"\A\p{Nd}{1,2}(?=\p{Nd}{3}+\z)",
              r"\A\p{Nd}{3}|\G\p{Nd}{3}",
              r"(?:[\u4E00-\u9FFF\u3040-\u309F\u30A0-\u30FF\u3400-\u4DBF\uf900-\uFAFF\uFF65-\uFF9F\u2F00-\u2FDF]+"
              r"|[\u0E00-\u0E7F]+|[\u0E80-\u0EFF]+|[\u1780-\u17FF]+|[\u1000-\u109F\uAA60-\uAA7F\uA9E0-\uA9FF]+"
              r"|[\uAC00-\uD7AF\u1100-\u11FF]+)", DEEPSEEK],
    "exaone-moe": [CONTRACTION + r"|" + FIRST + r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
                   r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
                   r"|\s*[\r\n]|\s+(?!\S)|\s+"],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)",
                 rf"{FIRST}[{UPPER}]*[{LOWER}]+{CONTRACTION}?|{FIRST}[{UPPER}]+[{LOWER}]*{CONTRACTION}?"
                 r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + REST],
}
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
BLOOM = r" ?[^(\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
# The regular expressions of llama.cpp, or those of the published tokenizers where it has them in a comment.
SPLITS |= {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "jais-2": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
               r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)"
               r"|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"],
    "ufakzeka": [r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + REST],
    "poro-chat": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\t\n]|    |  )", r"\p{N}",
                  r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
}
WHOLE = {"kimi-k2"} # words that are tokens are not merged
HOSTILE = ["1", "12", "1234", "x1234567y 12 34567.890", "9" * 1021 + "a", "\u4f60\u597d world\u4e16\u754c1234",
           "\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8 abc\u6f22x", "\ud55c\uad6d\uc5b4 \ud55c 12345", "\u0e44\u0e17\u0e22 12",
           "DON'T can't I'LL  \r\n\n x", "a b  c   d\n\n e/\n", "e\u0301 \u0915\u094d\u0937\u093f x", "\u0661\u0662\u0663\u0664 \u2460\u2461 \u00b2",
           *(f"a{' ' * n}b{' ' * n}" for n in (1, 2, 3, 5, 7, 12, 33, 600)), "a \t\n  \t b\t\tc",
           "(a|b), c|d! e?\u2026 f\u3002\uff0cg\u3001h\u0964 i\u06d4 j\u060c [k] 'l' ", "`x` $1 +2 <=> ^~ |y| {z} @w #v %u &t *s",
           "<sentinel:12> IMGIMGABCZ IMGIMGABCDEZ 12\u00b2345 \u0661\u0662\u0663\u0664\u0665 1234567\u00bd"]


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_cases(path, cases):
    with open(path, "w", encoding="utf-8") as f:
        for case in cases:
            f.write(json.dumps(case, ensure_ascii=False) + "\n")


def byte_level(out, folder, name, pre):
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    vocab, added = dict(tokenizer["model"]["vocab"]), {t["content"]: t for t in tokenizer["added_tokens"]}
    vocab |= {t["content"]: t["id"] for t in added.values()}
    tokens = sorted(vocab, key=vocab.get)
    assert [vocab[t] for t in tokens] == list(range(len(tokens)))
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    w = gguf.GGUFWriter(os.path.join(out, name + ".gguf"), "llama")
    w.add_tokenizer_model("gemma4" if pre == "gemma4" else "gpt2")
    if pre == "gemma4":
        w.add_token_scores([-1000.0] * len(tokens))
        w.add_add_space_prefix(False)
    else:
        w.add_tokenizer_pre(pre)
    w.add_token_list([t.replace("\u2581", " ") if t in added else t for t in tokens])
    w.add_token_types([(3 if added[t]["special"] else 4) if t in added else
                       6 if pre == "gemma4" and re.fullmatch("<0x..>", t) else 1 for t in tokens])
    w.add_token_merges(merges)
    single = (tokenizer["post_processor"] or {}).get("single")
    if tokenizer["post_processor"] and tokenizer["post_processor"]["type"] == "Sequence":
        single = tokenizer["post_processor"]["processors"][-1].get("single")
    first = next((p["SpecialToken"]["id"] for p in single or [] if "SpecialToken" in p), None)
    if first is not None:
        w.add_bos_token_id(vocab[first])
    w.add_add_bos_token(first is not None)
    finish(w)
    with open(os.path.join(folder, "golden.jsonl"), encoding="utf-8") as f:
        golden = [json.loads(line) for line in f]
    step = max(1, len(golden) // N_CASES)
    return [[g["text"], g["ids"], g["ids_special"]] for g in golden[::step] if len(g["text"]) < 200]


def split(out, folder, pre, texts):
    """The vocabulary of one tokenizer with the splits of another, and the ids by the tokenizers library."""
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    steps = [{"type": "Split", "pattern": {"Regex": r}, "behavior": "Isolated", "invert": False} for r in SPLITS[pre]]
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    tokenizer |= {"normalizer": None, "post_processor": None, "added_tokens": [],
                  "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}}
    tokenizer["model"]["ignore_merges"] = pre in WHOLE
    t = tokenizers.Tokenizer.from_str(json.dumps(tokenizer))
    vocab = tokenizer["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    assert [vocab[t] for t in tokens] == list(range(len(tokens)))
    w = gguf.GGUFWriter(os.path.join(out, pre + ".gguf"), "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types([1] * len(tokens))
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])
    finish(w)
    return [[x, t.encode(x).ids, t.encode(x).ids] for x in HOSTILE + texts[:N_CASES]]


def pieces(out, name, texts, prefix):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=700, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix,
        character_coverage=0.98, user_defined_symbols=["<tool>"], minloglevel=2)
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    w = gguf.GGUFWriter(os.path.join(out, name + ".gguf"), "llama")
    ids = range(sp.vocab_size())
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list([sp.id_to_piece(i) for i in ids])
    w.add_token_scores([sp.get_score(i) for i in ids])
    w.add_token_types([2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else
                       4 if sp.id_to_piece(i) == "<tool>" else 1 for i in ids])
    w.add_bos_token_id(sp.bos_id())
    w.add_eos_token_id(sp.eos_id())
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_add_space_prefix(prefix)
    finish(w)
    return [[t, sp.encode(t), [sp.bos_id()] + sp.encode(t)] for t in texts[::max(1, len(texts) // N_CASES)]]


def unigram(out, name, texts):
    rules = {"\uff21": "A", "\ufb01": "fi", "\u00a0": " ", "\u2460": "1", "e\u0301": "\u00e9"}
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as tsv:
        for a, b in rules.items():
            tsv.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        tsv.flush()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=model, vocab_size=500, model_type="unigram",
            normalization_rule_tsv=tsv.name, character_coverage=0.98, minloglevel=2)
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(3, sp.vocab_size())
    w = gguf.GGUFWriter(os.path.join(out, name + ".gguf"), "bert")
    w.add_tokenizer_model("t5")
    w.add_tokenizer_pre("default")
    w.add_token_list(["<s>", "<pad>", "</s>", "<unk>"] + [sp.id_to_piece(i) for i in ids] + ["[PAD501]"])
    w.add_token_scores([0.0] * 4 + [sp.get_score(i) for i in ids] + [-10000.0])
    w.add_token_types([3, 3, 3, 2] + [1] * len(ids) + [5])
    w.add_add_space_prefix(True)
    w.add_remove_extra_whitespaces(True)
    w.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    w.add_bos_token_id(0)
    w.add_eos_token_id(2)
    finish(w)
    cases = []
    plain = [x for x in texts if x.split() == x.split(" ") and "\u2581" not in x][:N_CASES]
    for t in plain + ["\uff21\ufb01 x", "cafe\u0301  \u2460", "a\u00a0b"]:
        own = [3 if i == sp.unk_id() else i + 1 for i in sp.encode(t)]
        cases.append([t, own, [0] + own + [2]])
    return cases


def wordpiece(out, name, texts, lowercase):
    t = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=600, special_tokens=special, show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 4), ("[CLS]", 3))
    vocab = t.get_vocab()
    tokens = sorted(vocab, key=vocab.get)
    w = gguf.GGUFWriter(os.path.join(out, name + ".gguf"), "bert")
    w.add_tokenizer_model("bert")
    w.add_tokenizer_pre("jina-v2-en")
    control = [x in special and x != "[unused0]" for x in tokens]
    w.add_token_list([x if c else x[2:] if x.startswith("##") else "\u2581" + x for x, c in zip(tokens, control)])
    w.add_token_types([3 if c else 1 for c in control])
    if lowercase: # else found by their texts
        w.add_bos_token_id(3)
        w.add_sep_token_id(4)
        w.add_unk_token_id(2)
    finish(w)
    return [[x, t.encode(x, add_special_tokens=False).ids, t.encode(x).ids]
            for x in texts[:N_CASES] + ["\u00c9t\u00e9 X9"]]


def main():
    out, mini = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    texts = []
    for folder, pre in [*BYTE_LEVEL.items(), *NEWER.items(), *OTHERS.items()]:
        cases = byte_level(out, os.path.join(mini, folder), pre, pre)
        write_cases(os.path.join(out, pre + ".jsonl"), cases)
        if pre in BYTE_LEVEL.values():
            texts += [c[0] for c in cases if "<" not in c[0] and "\0" not in c[0]]
    texts = list(dict.fromkeys(texts))
    for name, prefix in (("pieces", True), ("pieces-bare", False)):
        write_cases(os.path.join(out, name + ".jsonl"), pieces(out, name, texts, prefix))
    for pre in SPLITS:
        write_cases(os.path.join(out, pre + ".jsonl"), split(out, os.path.join(mini, "bl_gpt2"), pre, texts))
    write_cases(os.path.join(out, "unigram.jsonl"), unigram(out, "unigram", texts))
    for name, lowercase in (("wordpiece", True), ("wordpiece-cased", False)):
        write_cases(os.path.join(out, name + ".jsonl"), wordpiece(out, name, texts, lowercase))


main()

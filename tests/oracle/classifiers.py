#!/usr/bin/env python3
"""Make the rerankers with a classification head of testdata/classifiers: python3 classifiers.py FOLDER

Tiny random checkpoints as transformers saves its *ForSequenceClassification, each with golden.json:
queries and documents with the scores by transformers, after the sigmoid, in float32 with eager
attention. CrossEncoder of sentence-transformers must agree. Weights are rounded to bfloat16 and
stored as such. Fixed seeds. Made with sentence-transformers, torch and transformers as golden.json
states."""
import json
import os
import shutil
import sys
import tempfile

import sentence_transformers
import torch
import transformers
from sentence_transformers import CrossEncoder
from tokenizers import processors

from embeddings import COMMON, N_VOCAB, PAIRS, TEXTS, round_weights, tokenizer, unigram, wordpiece

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
         "initializer_range": 0.2, "num_labels": 1}


def with_types(limit):
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=wordpiece(limit).backend_tokenizer, unk_token="[UNK]", pad_token="[PAD]",
        cls_token="[CLS]", sep_token="[SEP]", model_max_length=limit,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"])


def with_pairs(limit):
    tok = tokenizer(True, True, limit)
    tok.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A <|end|>", pair="<|begin|> $A <|sep|> $B <|end|>",
        special_tokens=[("<|begin|>", 0), ("<|end|>", 1), ("<|sep|>", 2)])
    return tok


def without_tags(limit):
    tok = tokenizer(False, False, limit)
    tok.backend_tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


MODELS = {
    "bert": (lambda: transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=80, max_position_embeddings=64, **SIZES)), with_types(64)),
    "xlm_roberta": (lambda: transformers.XLMRobertaForSequenceClassification(
        transformers.XLMRobertaConfig(
            vocab_size=80, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1,
            bos_token_id=0, eos_token_id=2, **SIZES)), unigram(64)),
    "modernbert": (lambda: transformers.ModernBertForSequenceClassification(
        transformers.ModernBertConfig(
            vocab_size=N_VOCAB, max_position_embeddings=256, local_attention=8, cls_token_id=0,
            sep_token_id=1, bos_token_id=0, eos_token_id=1, pad_token_id=1,
            classifier_pooling="mean", **SIZES)), with_pairs(64)),
    "qwen3": (lambda: transformers.Qwen3ForSequenceClassification(transformers.Qwen3Config(
        **{**COMMON, **SIZES}, head_dim=16, pad_token_id=1, tie_word_embeddings=True)),
        without_tags(64)),
}


def make(folder, name):
    model, tok = MODELS[name]
    torch.manual_seed(11)
    model = model().eval()
    round_weights(model)
    cases = []
    with tempfile.TemporaryDirectory() as plain:
        model.save_pretrained(plain)
        tok.save_pretrained(plain)
        ce = CrossEncoder(plain, device="cpu", model_kwargs={"attn_implementation": "eager",
                                                             "dtype": torch.float32})
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for query, document in PAIRS[:3] + [(TEXTS[0], TEXTS[1])]:
            x = tok(query, document, return_tensors="pt")
            score = torch.sigmoid(model(**x).logits)[0, 0].item()
            assert abs(score - ce.predict([(query, document)])[0]) < 1e-6, name
            cases.append({"query": query, "document": document, "tokens": x["input_ids"].shape[1],
                          "score": float(f"{score:.9g}")})
    out = os.path.join(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(out)
    tok.save_pretrained(out)
    versions = {m.__name__: m.__version__ for m in (sentence_transformers, torch, transformers)}
    with open(os.path.join(out, "golden.json"), "w") as f:
        json.dump({"versions": versions, "cases": cases}, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    for name in MODELS:
        make(sys.argv[1], name)

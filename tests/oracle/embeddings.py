#!/usr/bin/env python3
"""Make the embedding models of testdata/embeddings: python3 embeddings.py FOLDER

Tiny random checkpoints as sentence-transformers saves them, each with golden.json: texts, the name
of the prompt ("" for none, null for the default), the number of tokens and the embedding, computed by
sentence-transformers in float32 with eager attention. The last text is longer than the model reads.
Of a reranker, golden.json has queries, documents and instructions with the scores of
sentence-transformers' CrossEncoder, whose prompt is the chat template, and those by the code of
Qwen3-Reranker's model card ("card"), whose prompt is fixed.
Weights are rounded to bfloat16 and stored as such. Fixed seeds. Made with sentence-transformers,
torch and transformers as golden.json states."""
import json
import os
import shutil
import sys
import tempfile

import sentence_transformers
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tokenizers import (Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

N_VOCAB = 300
TEXTS = ["the cat", " The dog ran over the hill, and then the cat ran.", "caf\u00e9 \u4e16\u754c \U0001f600",
         "the<|sep|>cat", "a", "the cat sat on the mat and the dog ran over the hill " * 6]
COMMON = {"vocab_size": N_VOCAB, "num_hidden_layers": 3, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.2}


def tokenizer(lead, tail, limit, pad="<|end|>"):
    """A byte-level tokenizer that puts <|begin|> and <|end|> around a text."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    special = ["<|begin|>", "<|end|>", "<|sep|>"] + ([pad] if pad == "<|pad|>" else [])
    tok.train_from_iterator(TEXTS * 4, trainers.BpeTrainer(
        vocab_size=N_VOCAB, special_tokens=special, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    form = (["<|begin|>"] if lead else []) + ["$A"] + (["<|end|>"] if tail else [])
    tok.post_processor = processors.TemplateProcessing(
        single=" ".join(form), special_tokens=[("<|begin|>", 0), ("<|end|>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tok, eos_token="<|end|>", pad_token=pad, model_max_length=limit,
        additional_special_tokens=["<|sep|>"])


def wordpiece(limit):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.train_from_iterator(TEXTS[:2] * 4, trainers.WordPieceTrainer(
        vocab_size=80, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tok, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", model_max_length=limit)


def unigram(limit):
    """Tokens as XLM-RoBERTa has them, without its map of characters."""
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tok.decoder = decoders.Metaspace()
    tok.train_from_iterator(TEXTS[:2] * 4, trainers.UnigramTrainer(
        vocab_size=80, show_progress=False, unk_token="<unk>",
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"]))
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tok, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        sep_token="</s>", pad_token="<pad>", cls_token="<s>", model_max_length=limit)


def round_weights(module):
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in sorted(module.named_parameters()):
            if p.dim() == 1:
                p += 0.3 * torch.randn(p.shape, generator=generator)
            p.copy_(p.to(torch.bfloat16))


def dense(*args, **kwargs):
    return modules.Dense(*args, **kwargs)


def linear(n_in, n_out):
    return dense(n_in, n_out, bias=False, activation_function=torch.nn.Identity())


# name: model, tokenizer, modules after the transformer, further arguments of SentenceTransformer
MODELS = {
    # Qwen3-Embedding: the last token, which the tokenizer appends; prompts.
    "qwen3": (lambda: transformers.Qwen3Model(transformers.Qwen3Config(
        **COMMON, hidden_size=32, intermediate_size=48, head_dim=16, tie_word_embeddings=True)),
        tokenizer(False, True, 40),
        lambda: [modules.Pooling(32, "lasttoken"), modules.Normalize()],
        {"prompts": {"query": "Instruct: find it\nQuery:", "document": ""}}),
    # EmbeddingGemma: bidirectional, a window on both sides, two dense layers.
    "gemma3": (lambda: transformers.Gemma3TextModel(transformers.Gemma3TextConfig(
        **COMMON, hidden_size=64, intermediate_size=48, head_dim=16, sliding_window=12,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        use_bidirectional_attention=True, query_pre_attn_scalar=16)),
        tokenizer(True, True, 64),
        lambda: [modules.Pooling(64, "mean"), linear(64, 96), linear(96, 64), modules.Normalize()],
        {"prompts": {"query": "task: search result | query: ", "document": "title: none | text: "}}),
    # An untied model without its output matrix; a biased dense layer with tanh; a default prompt;
    # embeddings that are not normalized.
    "llama": (lambda: transformers.LlamaModel(transformers.LlamaConfig(
        **COMMON, hidden_size=32, intermediate_size=48, tie_word_embeddings=False)),
        tokenizer(True, False, 256),
        lambda: [modules.Pooling(32, "cls"), dense(32, 24)],
        {"prompts": {"q": "find "}, "default_prompt_name": "q"}),
    # An encoder with windows, LayerNorms, a norm of the embedding and none in layer 0.
    "modernbert": (lambda: transformers.ModernBertModel(transformers.ModernBertConfig(
        vocab_size=N_VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
        num_attention_heads=4, max_position_embeddings=256, local_attention=8,
        initializer_range=0.2, cls_token_id=0, sep_token_id=1, bos_token_id=0, eos_token_id=1,
        pad_token_id=1)),
        tokenizer(True, True, 64), lambda: [modules.Pooling(32, "cls"), modules.Normalize()], {}),
    "eurobert": (lambda: transformers.EuroBertModel(transformers.EuroBertConfig(
        **COMMON, hidden_size=32, intermediate_size=48, bos_token_id=0, eos_token_id=1,
        pad_token_id=1, mask_token_id=2)),
        tokenizer(True, True, 64), lambda: [modules.Pooling(32, "mean")], {}),
    # gte-Qwen2: a decoder without its causal mask, here with windows.
    "qwen2_bidirectional": (lambda: transformers.Qwen2Model(transformers.Qwen2Config(
        **COMMON, hidden_size=32, intermediate_size=48, is_causal=False, use_sliding_window=True,
        sliding_window=6, max_window_layers=1, tie_word_embeddings=True)),
        tokenizer(False, True, 64), lambda: [modules.Pooling(32, "lasttoken"), modules.Normalize()],
        {}),
    "bert": (lambda: transformers.BertModel(transformers.BertConfig(
        vocab_size=80, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=64, initializer_range=0.2)),
        wordpiece(64), lambda: [modules.Pooling(32, "mean"), modules.Normalize()], {}),
    # Rotary embedding and gates in BERT's layers.
    "nomic_bert": (lambda: transformers.NomicBertModel(transformers.NomicBertConfig(
        vocab_size=80, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=64, initializer_range=0.2)),
        wordpiece(64), lambda: [modules.Pooling(32, "mean"), modules.Normalize()], {}),
    "roberta": (lambda: transformers.RobertaModel(transformers.RobertaConfig(
        vocab_size=N_VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=68, initializer_range=0.2,
        type_vocab_size=1, pad_token_id=3, bos_token_id=0, eos_token_id=1)),
        tokenizer(True, True, 64, "<|pad|>"), lambda: [modules.Pooling(32, "cls")], {}),
    "xlm_roberta": (lambda: transformers.XLMRobertaModel(transformers.XLMRobertaConfig(
        vocab_size=80, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=66, initializer_range=0.2,
        type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2)),
        unigram(64), lambda: [modules.Pooling(32, "cls"), modules.Normalize()], {}),
}


def make(folder, name):
    model, tok, tail, options = MODELS[name]
    torch.manual_seed(11)
    model = model()
    round_weights(model)
    with tempfile.TemporaryDirectory() as plain:
        model.save_pretrained(plain)
        tok.save_pretrained(plain)
        kwargs = {"attn_implementation": "eager", "dtype": torch.float32}
        st = SentenceTransformer(modules=[modules.Transformer(plain, model_kwargs=kwargs), *tail()],
                                 device="cpu", **options)
    for module in list(st)[1:]:
        round_weights(module)
    texts = [(text, prompt) for text in TEXTS for prompt in [None, *sorted(st.prompts), ""]
             if text == TEXTS[0] or prompt is None]
    cases = []
    for text, prompt in texts:
        whole = (st.prompts[prompt if prompt else st.default_prompt_name]
                 if prompt or (prompt is None and st.default_prompt_name) else "") + text
        row = st.encode([text], prompt="" if prompt == "" else None, prompt_name=prompt or None)[0]
        cases.append({"text": text, "prompt": prompt,
                      "tokens": len(st.tokenizer(whole, truncation=True)["input_ids"]),
                      "embedding": [float(f"{x:.9g}") for x in row]})
    out = os.path.join(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    st.to(torch.bfloat16).save(out, create_model_card=False)
    versions = {m.__name__: m.__version__ for m in (sentence_transformers, torch, transformers)}
    with open(os.path.join(out, "golden.json"), "w") as f:
        json.dump({"versions": versions, "cases": cases}, f, indent=0)
        f.write("\n")


# ---- rerankers ----

PAIRS = [("the cat", "a dog ran over the hill"), ("the cat", "The cat sat on the mat."),
         ("caf\u00e9?", "\u4e16\u754c \U0001f600"), ("x", "")]
INSTRUCTION = "Given a query"
TEMPLATE = """<|im_start|>system
{{ (messages | selectattr("role", "eq", "system") | map(attribute="content") | first) | default("Judge", true) }}<|im_end|>
<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}<|im_end|>
<|im_start|>assistant
"""
PREFIX = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
          "Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
          "<|im_start|>user\n")
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
DEFAULT = "Given a web search query, retrieve relevant passages that answer the query"


def card_score(model, tok, instruction, query, document):
    """As the model card of Qwen3-Reranker computes it."""
    content = f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
    ids = sum((tok.encode(s, add_special_tokens=False) for s in (PREFIX, content, SUFFIX)), [])
    logits = model(torch.tensor([ids])).logits[0, -1]
    pair = torch.stack([logits[tok.convert_tokens_to_ids(s)] for s in ("no", "yes")])
    return torch.nn.functional.log_softmax(pair, dim=0)[1].exp().item()


def make_reranker(folder, name):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(["yes no", "yes", "no", *TEXTS] * 8, trainers.BpeTrainer(
        vocab_size=N_VOCAB, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tok = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tok, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        model_max_length=512, chat_template=TEMPLATE)
    torch.manual_seed(11)
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        **{**COMMON, "max_position_embeddings": 512}, hidden_size=32, intermediate_size=48,
        head_dim=16, tie_word_embeddings=True))
    round_weights(model)
    with tempfile.TemporaryDirectory() as plain:
        model.save_pretrained(plain)
        tok.save_pretrained(plain)
        ce = CrossEncoder(plain, device="cpu", prompts={"web": INSTRUCTION}, default_prompt_name="web",
                          model_kwargs={"attn_implementation": "eager", "dtype": torch.float32})
    cases, card = [], []
    with torch.no_grad():
        for query, document in PAIRS:
            for instruction in (None, "find it"):
                score = ce.predict([(query, document)], prompt=instruction)[0]
                case = {"query": query, "document": document, "instruction": instruction}
                cases.append({**case, "score": float(f"{score:.9g}")})
                score = card_score(model.eval(), tok, instruction or DEFAULT, query, document)
                card.append({**case, "score": float(f"{score:.9g}")})
    out = os.path.join(folder, name)
    shutil.rmtree(out, ignore_errors=True)
    ce.to(torch.bfloat16).save(out, create_model_card=False)
    versions = {m.__name__: m.__version__ for m in (sentence_transformers, torch, transformers)}
    with open(os.path.join(out, "golden.json"), "w") as f:
        json.dump({"versions": versions, "cases": cases, "card": card}, f, indent=0)
        f.write("\n")


if __name__ == "__main__":
    for name in MODELS:
        make(sys.argv[1], name)
    make_reranker(sys.argv[1], "qwen3_reranker")

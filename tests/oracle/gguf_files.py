#!/usr/bin/env python3
"""Write testdata/gguf: llama.cpp's own converter on tiny checkpoints: python3 gguf_files.py OUT CHECKPOINT...

    python3 tests/oracle/gguf_files.py testdata/gguf testdata/families/{mixtral,olmo2,granite,gemma,olmo3,olmoe,granitemoe,\\
        ernie4_5,exaone4,exaone4_full,arcee,glm4,glm4_moe,seed_oss,\\
        qwen3_next,qwen3_5_bias,qwen3_5_experts,gemma4_shared,deepseek_v2,deepseek_v2_lite,deepseek_v3,youtu,lfm2,\\
        lfm2_moe_plain,mamba2,granitemoeshared,granite4_h,granite4_h_moe,nemotron_h_even,ministral3_small,falcon_h1_head,\\
        hunyuan_unscaled,cohere2,cohere_qk_norm,ernie4_5_moe,exaone_moe,dots1,afmoe_plain,\\
        apertus,jais2,nemotron_bias,olmo,olmo_unclipped,stablelm,stablelm_parallel,starcoder2,hunyuan_moe_unscaled,gemma3n,llama4,gpt_neox,jamba} \
        ../shared/oracle/newer/gpt2 \\
        ../shared/oracle/targets/{gemma2,gpt_oss,phi3_partial,smollm3}
    LLAMA_CPP=... python3 tests/oracle/gguf_files.py testdata/gguf testdata/families/{cohere2_moe,mellum_sparse,granite_swa_nope,granitemoe_swa}
    LLAMA_CPP=... python3 tests/oracle/gguf_files.py testdata/gguf \\
        testdata/embeddings/{bert,nomic_bert,roberta,xlm_roberta,modernbert,eurobert,gemma3,qwen3} \\
        testdata/classifiers/{bert,modernbert,xlm_roberta}

The converter is the copy that auto-round 0.16.1 carries (pip install --no-deps auto-round; gguf, torch, transformers),
or that of a checkout of llama.cpp, newer, if LLAMA_CPP names its folder.
Matrices are BF16, which holds the checkpoints' numbers exactly. The files have no tokenizer, except those of the last
call, encoders: those of ../shared/oracle/sources and tests/convert/test_gguf.c have."""
import importlib.util
import json
import logging
import os
import shutil
import sys
import tempfile
import types
from pathlib import Path

CHECKOUT = os.environ.get("LLAMA_CPP")


def import_converter():
    """Imports conversion/ alone, without the rest of auto-round, which needs much more."""
    if CHECKOUT:
        sys.path[:0] = [os.path.join(CHECKOUT, "gguf-py"), CHECKOUT]
        return
    package = importlib.util.find_spec("auto_round").submodule_search_locations[0]
    for name in ("auto_round", "auto_round.utils"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    spec = importlib.util.spec_from_file_location(
        "auto_round.utils.path_safety", os.path.join(package, "utils", "path_safety.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path.insert(0, os.path.join(package, "export", "export_to_gguf"))


def has_prediction_head(folder):
    tensors = b"".join(path.read_bytes()[:1 << 20] for path in folder.glob("*.safetensors"))
    return b'"mtp.' in tensors


def with_tokenizer(folder, parent):
    """A copy of a checkpoint with a tokenizer.json of as many tokens as its vocabulary: some converters count them."""
    copy = Path(parent) / folder.name
    shutil.copytree(folder, copy)
    if not (copy / "tokenizer.json").exists():
        n = json.loads((copy / "config.json").read_text())["vocab_size"]
        model = {"type": "BPE", "vocab": {f"t{i}": i for i in range(n)}, "merges": []}
        (copy / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    # The converter of Granite 4 knows the layers by the names of published checkpoints only.
    config = (copy / "config.json").read_text()
    if "GraniteMoeHybrid" in config:
        config = config.replace('"linear_attention"', '"mamba"').replace('"full_attention"', '"attention"')
        (copy / "config.json").write_text(config)
    if "EuroBert" in config: # of classifiers; the converter does not know this value
        (copy / "config.json").write_text(json.dumps({**json.loads(config), "classifier_pooling": "mean"}))
    if "Cohere2" in config: # a key of published checkpoints
        (copy / "config.json").write_text(json.dumps({**json.loads(config), "rotary_pct": 1.0}))
    if "NomicBert" in config: # likewise
        keys = {"n_positions": 8192, "activation_function": "swiglu", "rotary_emb_fraction": 1.0, "rotary_emb_base": 1000,
                "rotary_emb_scale_base": None, **{key: False for key in (
                    "causal", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "rotary_emb_interleaved")}}
        (copy / "config.json").write_text(json.dumps({**json.loads(config), **keys}))
    if "HunYuanMoE" in config: # likewise
        own = json.loads(config)
        n = own["num_hidden_layers"]
        own |= {"moe_intermediate_size": [own["intermediate_size"]] * n, "num_shared_expert": [1] * n}
        (copy / "config.json").write_text(json.dumps(own))
    own = json.loads((copy / "config.json").read_text())
    if own["model_type"] == "gpt2": # likewise
        own["n_ctx"] = own["n_positions"]
    if own["model_type"] == "falcon" and own["multi_query"]: # transformers states what it would be otherwise
        own["num_kv_heads"] = 1
    (copy / "config.json").write_text(json.dumps(own))
    if "SWAForCausalLM" in config: # likewise; transformers states the base of each layer instead
        own = json.loads(config)
        own["no_rope_layers"] = [int(theta > 0) for theta in own["layer_rope_theta"]]
        (copy / "config.json").write_text(json.dumps(own))
    return copy


# tokenizer.ggml.pre of encoders, which the converter finds by digests of known tokenizers
ENCODERS = {"bert": "jina-v2-en", "nomic_bert": "jina-v2-en", "roberta": "roberta-bpe", "xlm_roberta": "default", "modernbert": "modern-bert",
            "eurobert": "gpt-2", "gemma3": "gpt-2", "qwen3": "gpt-2"}


def set_unigram(writer, folder):
    """What the converter writes of an XLM-RoBERTa tokenizer; this one has no map of characters, which it expects."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocab, special = tokenizer["model"]["vocab"], {t["id"] for t in tokenizer["added_tokens"]}
    unknown = tokenizer["model"]["unk_id"]
    n = json.loads((folder / "config.json").read_text())["vocab_size"]
    unused = [[f"[PAD{i}]", -10000.0] for i in range(len(vocab), n)]
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([t for t, _ in vocab + unused])
    writer.add_token_scores([s for _, s in vocab + unused])
    writer.add_token_types([2 if i == unknown else 3 if i in special else 1 if i < len(vocab) else 5 for i in range(n)])
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    writer.add_token_type_count(1)
    for name, token in (("bos", "<s>"), ("eos", "</s>")):
        getattr(writer, f"add_{name}_token_id")([t for t, _ in vocab].index(token))


def set_vocabulary(converter, folder):
    converter.get_vocab_base_pre = lambda tokenizer: ENCODERS[folder.name]
    if folder.name == "xlm_roberta":
        converter.set_vocab = lambda: set_unigram(converter.gguf_writer, folder)
    if folder.name == "gemma3": # which layers have a window is stated by no key that the converter writes
        types = json.loads((folder / "config.json").read_text())["layer_types"]
        converter.gguf_writer.add_sliding_window_pattern([t == "sliding_attention" for t in types])


def mend(converter, folder):
    """What the converters of single architectures leave out."""
    if folder.name.startswith("gpt_neox"): # a key of published checkpoints, which transformers changes
        converter.hparams["rotary_pct"] = converter.hparams["rope_parameters"]["partial_rotary_factor"]
    if folder.name.startswith("stablelm"): # it returns the stacked norms of the heads from a generator
        plain = converter.modify_tensors

        def modify(data, name, bid):
            yield from (yield from plain(data, name, bid)) or ()
        converter.modify_tensors = modify
    if folder.name == "starcoder2": # a window other than that of published models
        converter.gguf_writer.add_sliding_window(json.loads((folder / "config.json").read_text())["sliding_window"])


def join_latent(converter):
    """As converters wrote it before they split attn_kv_b in attn_k_b and attn_v_b: heads of their full size."""
    import gguf
    plain, parameters, hparams = converter.modify_tensors, converter.set_gguf_parameters, converter.hparams

    def modify(data, name, bid):
        if name.endswith("kv_b_proj.weight"):
            yield converter.format_tensor_name(gguf.MODEL_TENSOR.ATTN_KV_B, bid), data
        else:
            yield from plain(data, name, bid)

    def old_parameters():
        parameters()
        w, arch = converter.gguf_writer, converter.gguf_writer.arch
        for key in ("key_length_mla", "value_length_mla"):
            w.kv_data[0].pop(f"{arch}.attention.{key}", None)
        for key, value in (("key_length", hparams["qk_nope_head_dim"] + hparams["qk_rope_head_dim"]),
                           ("value_length", hparams["v_head_dim"]), ("head_count_kv", hparams["num_attention_heads"])):
            w.kv_data[0].pop(f"{arch}.attention.{key}", None)
            w.add_uint32(f"{arch}.attention.{key}", value)
    converter.modify_tensors, converter.set_gguf_parameters = modify, old_parameters


def fuse_attention(converter):
    """One matrix of queries, keys and values, as llama.cpp reads them, too."""
    import torch
    plain, parts, kinds = converter.modify_tensors, {}, ("query", "key", "value")

    def modify(data, name, bid):
        kind = next((k for k in kinds if f"attention.self.{k}." in name), None)
        if kind is None:
            yield from plain(data, name, bid)
            return
        end = name.rsplit(".", 1)[1]
        part = parts.setdefault((bid, end), {})
        part[kind] = data
        if len(part) == 3:
            yield f"blk.{bid}.attn_qkv.{end}", torch.cat([part[k] for k in kinds])
    converter.modify_tensors = modify


def keep_pooler(item, plain):
    """The first layer of BERT's head, which the converter leaves out, under the name of XLM-RoBERTa's."""
    name, data = item
    if name.startswith("bert.pooler.dense."):
        return name.replace("bert.pooler", "classifier"), data
    return plain(item)


def outputs(folders):
    """Checkpoints and the names of their files."""
    for folder in map(Path, folders):
        if folder.parent.name == "classifiers":
            yield folder, f"{folder.name}_reranker"
            if folder.name == "bert":
                yield folder, "bert_reranker_pooled"
            continue
        yield folder, folder.name
        if folder.name in ("deepseek_v2", "deepseek_v2_lite"):
            yield folder, f"{folder.name}_joined"
        if folder.name == "bert":
            yield folder, "bert_fused"


class Names:
    """An enum of gguf's that also answers for the architectures of newer releases, which the converter names."""

    def __init__(self, enum):
        self.enum = enum

    def __getattr__(self, name):
        return getattr(self.enum, name, None) if name.isupper() else getattr(self.enum, name)

    def __iter__(self):
        return iter(self.enum)


def main():
    import_converter()
    import gguf
    import torch
    gguf.MODEL_ARCH, gguf.MODEL_TENSOR = Names(gguf.MODEL_ARCH), Names(gguf.MODEL_TENSOR)
    import conversion
    from conversion.base import ModelBase, ModelType, get_model_architecture
    logging.disable(logging.INFO)
    for folder, name in outputs(sys.argv[2:]):
        with tempfile.TemporaryDirectory() as parent:
            copy = with_tokenizer(folder, parent)
            model = conversion.get_model_class(
                get_model_architecture(ModelBase.load_hparams(copy, False), ModelType.TEXT))
            encoder = folder.parent.name in ("embeddings", "classifiers") and folder.name in ENCODERS
            plain = type(model.__name__, (model,), {
                "model_arch": model.model_arch,
                # A converter that can write a head without the model expects one unless told otherwise.
                "no_mtp": model.__name__.startswith("Qwen3") and not has_prediction_head(copy),
                "set_vocab": model.set_vocab if encoder else
                             lambda self: self.gguf_writer.add_tokenizer_model("none"),
                "filter_tensors": staticmethod(lambda item: (
                    keep_pooler(item, model.filter_tensors) if name.endswith("_pooled")
                    else model.filter_tensors(item)))})
            out = Path(sys.argv[1]) / f"{name}.gguf"
            # Falcon-H1's weights are multiplied, and bfloat16 does not hold the products.
            file_type = gguf.LlamaFileType.ALL_F32 if "falcon" in folder.name else gguf.LlamaFileType.MOSTLY_BF16
            with torch.inference_mode():
                dense = {"sentence_transformers_dense_modules": True} if encoder else {}
                converter = plain(copy, file_type, out, eager=True, **dense)
                inner = getattr(converter, "impl", converter)
                mend(inner, folder)
                if name.endswith("_joined"):
                    join_latent(inner)
                if name == "bert_fused":
                    fuse_attention(inner)
                if encoder:
                    set_vocabulary(inner, folder)
                else:
                    inner.set_vocab = lambda: inner.gguf_writer.add_tokenizer_model("none")
                converter.write()


main()

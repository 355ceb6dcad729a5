#!/usr/bin/env python3
"""Make golden prediction heads and drafts of families that transformers runs: python3 heads.py FOLDER [NAME...]

FOLDER/NAME becomes a copy of the checkpoint FOLDER/BASE (testdata/families) with a prediction head, and with the files that
families.py describes. The layers are those of transformers, the wiring that of the vLLM project's published model files.
laguna/dflash is a block draft in a folder of its own."""
import copy
import json
import os
import shutil
import sys
import zlib

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers.models.bailing_hybrid import modeling_bailing_hybrid
from transformers.models.glm5_next import modeling_glm5_next
from transformers.models.hy_v4 import modeling_hy_v4
from transformers.models.laguna import modeling_laguna
from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl
from transformers.models.nemotron_h import modeling_nemotron_h

import families


class PlainLayer(torch.nn.Module):
    """A layer with one residual stream, of modules whose own layers have several."""

    def __init__(self, norm, attention, mlp, config):
        super().__init__()
        self.self_attn, self.mlp = attention(config, 0), mlp(config)
        self.input_layernorm, self.post_attention_layernorm = (
            norm(config.hidden_size, eps=config.rms_norm_eps) for _ in range(2))

    def forward(self, x, **kwargs):
        x = x + self.self_attn(hidden_states=self.input_layernorm(x), **kwargs)[0]
        return x + self.mlp(self.post_attention_layernorm(x))


class Blocks(torch.nn.Module):
    """The sublayers of Nemotron-H, one after another."""

    def __init__(self, config):
        super().__init__()
        self.blocks = torch.nn.ModuleList(modeling_nemotron_h.NemotronHBlock(config, i) for i in range(2))

    def forward(self, x, **kwargs):
        for block in self.blocks:
            x = block(x, **kwargs)
        return x


class Head(torch.nn.Module):
    """norm(layer(eh_proj [enorm(embedding), hnorm(state)])), which is fed back; `raw`: the state before that norm is. `settings`
    turn the model's config into that of the layer; `path` is where its tensors are, {n} the number of the model's layers;
    `renames` is applied to their names in order; `packed`: its experts stay one tensor."""
    settings, path, renames, raw, packed = {}, "model.layers.{n}.", (), False, False

    def __init__(self, config):
        super().__init__()
        config = copy.deepcopy(config)
        self.path = self.path.format(n=config.num_hidden_layers)
        config.layer_types, config.mlp_layer_types, config.indexer_types = ["full_attention"], ["sparse"], ["full"]
        for key, value in self.settings.items():
            setattr(config, key, value)
        width, eps = config.hidden_size, getattr(config, "rms_norm_eps", getattr(config, "layer_norm_epsilon", None))
        self.eh_proj = torch.nn.Linear(2 * width, width, bias=False)
        self.enorm, self.hnorm, self.final_layernorm = (self.norm_class(width, eps) for _ in range(3))
        self.layer = self.make_layer(config)

    def tensors(self):
        for name, value in self.state_dict().items():
            parts = [(name, value)] if self.packed else families.expert_names(name, value)
            for name, value in parts:
                for old, new in self.renames:
                    name = name.replace(old, new)
                yield self.path + name, value

    def mask(self, n):
        return torch.full((n, n), float("-inf")).triu(1)[None, None]

    def forward(self, body, ids, hidden):
        x = self.eh_proj(torch.cat([self.enorm(body.get_input_embeddings()(ids)), self.hnorm(hidden)], -1))
        positions = torch.arange(x.shape[1])[None]
        rotations = body.rotary_emb(x, positions) if hasattr(body, "rotary_emb") else None
        x = self.layer(x, position_embeddings=rotations, position_ids=positions, attention_mask=self.mask(x.shape[1]))
        out = self.final_layernorm(x)
        return x if self.raw else out, out


class BailingHead(Head):
    norm_class = modeling_bailing_hybrid.BailingHybridRMSNorm
    renames = (("layer.", ""), ("self_attn.", "attention."), ("o_proj", "dense"), ("e_score_correction_bias", "expert_bias"))

    def make_layer(self, config):
        return modeling_bailing_hybrid.BailingHybridDecoderLayer(config, 0)


class Glm5Head(Head):
    """The layer has an index over pools; its mask counts padding only."""
    norm_class = modeling_glm5_next.Glm5NextTextRMSNorm
    path = "model.language_model.layers.{n}."
    renames = (("final_layernorm", "shared_head.norm"), ("layer.", ""))

    def make_layer(self, config):
        return PlainLayer(self.norm_class, modeling_glm5_next.Glm5NextTextAttention, modeling_glm5_next.Glm5NextTextMoE,
                          config)

    def mask(self, n):
        return torch.ones(1, n, dtype=torch.bool)


class HYV4Head(Head):
    norm_class = modeling_hy_v4.HYV4RMSNorm
    path, packed = "model.mtp_layers.0.", True
    renames = (("layer.", ""), ("self_attn.sinks", "self_attn.learnable_sink_param"),
               ("self_attn.gate_proj", "self_attn.linear_gate"))

    def make_layer(self, config):
        return PlainLayer(self.norm_class, modeling_hy_v4.HYV4Attention, modeling_hy_v4.HYV4MoE, config)


class MiniMaxM3Head(Head):
    """It feeds back the state before its norm."""
    norm_class = modeling_minimax_m3_vl.MiniMaxM3VLRMSNorm
    settings = {"layer_types": ["minimax_m3_sparse"]}
    path, raw, packed = "model.mtp.layers.0.", True, True
    renames = (("layer.", "transformer_layer."),)

    def make_layer(self, config):
        return modeling_minimax_m3_vl.MiniMaxM3VLDecoderLayer(config, 0)


class NemotronHHead(Head):
    norm_class = modeling_nemotron_h.NemotronHRMSNorm
    settings = {"layers_block_type": ["full_attention", "moe"]}
    path = "mtp."
    renames = (("layer.blocks.", "layers."), ("final_layernorm", "layers.1.final_layernorm"), ("eh_proj", "layers.0.eh_proj"),
               ("enorm", "layers.0.enorm"), ("hnorm", "layers.0.hnorm"))

    def make_layer(self, config):
        return Blocks(config)

    def tensors(self):
        for name, value in super().tensors():
            if name.endswith("experts.up_proj"):
                for e, rows in enumerate(value):
                    yield "%s.%d.up_proj.weight" % (name[:-8], e), rows.contiguous()
            else:
                yield name, value


class LagunaDraft(torch.nn.Module):
    """Laguna's DFlash draft: every layer norms the context as its own input."""
    CONFIG = {
        "architectures": ["DFlashLagunaForCausalLM"], "model_type": "laguna", "hidden_size": 48, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 12, "rms_norm_eps": 1e-6,
        "vocab_size": 277, "draft_vocab_size": 277, "rope_theta": 5e3, "sliding_window": 7, "sliding_windows": [7, 7],
        "layer_types": ["sliding_attention"] * 2, "gating": "per-head", "num_experts": 0, "attention_bias": False,
        "max_position_embeddings": 512, "dflash_config": {
            "block_size": 4, "mask_token_id": 12, "num_target_layers": 4, "target_layer_ids": [0, 2, 3], "causal": True}}

    def __init__(self):
        super().__init__()
        c = self.CONFIG
        rope = {"rope_type": "default", "rope_theta": c["rope_theta"]}
        self.config = transformers.LagunaConfig(
            **{key: value for key, value in c.items() if not key.startswith(("rope", "arch", "model", "dflash", "draft"))},
            mlp_layer_types=["dense"] * 2, rope_parameters={"sliding_attention": rope})
        self.config._attn_implementation = "eager"
        width, self.taps = c["hidden_size"], c["dflash_config"]["target_layer_ids"]
        norm = modeling_laguna.LagunaRMSNorm
        self.aux_hidden_norms = torch.nn.ModuleList(norm(width, c["rms_norm_eps"]) for _ in self.taps)
        self.fc = torch.nn.Linear(len(self.taps) * width, width, bias=False)
        self.hidden_norm, self.norm = (norm(width, c["rms_norm_eps"]) for _ in range(2))
        self.layers = torch.nn.ModuleList(modeling_laguna.LagunaDecoderLayer(self.config, i) for i in range(2))
        self.rotary_emb = modeling_laguna.LagunaRotaryEmbedding(self.config)

    def tensors(self):
        parts = {}
        for name, value in self.state_dict().items():
            if any(p in name for p in ("q_proj", "k_proj", "v_proj")):
                parts.setdefault(name[:-len("q_proj.weight")], []).append(value)
            else:
                yield name, value
        for name, values in parts.items():
            yield name + "qkv_proj.weight", torch.cat(values)

    def propose(self, model, ids):
        block = self.CONFIG["dflash_config"]
        made = {}
        hooks = [model.model.layers[i].register_forward_hook(
            lambda _, args, out, i=i: made.__setitem__(i, out if torch.is_tensor(out) else out[0])) for i in self.taps]
        model.model(torch.tensor([ids[:-1]]), use_cache=False)
        for hook in hooks:
            hook.remove()
        context = self.hidden_norm(self.fc(torch.cat(
            [norm(made[i].reshape(1, len(ids) - 1, -1)) for norm, i in zip(self.aux_hidden_norms, self.taps)], -1)))
        x = model.model.embed_tokens(torch.tensor([ids[-1:] + [block["mask_token_id"]] * (block["block_size"] - 1)]))
        n, first = context.shape[1] + x.shape[1], context.shape[1]
        mask = torch.full((n, n), float("-inf")).triu(1) + torch.full((n, n), float("-inf")).tril(-self.CONFIG["sliding_window"])
        rotations = self.rotary_emb(x, torch.arange(n)[None], "sliding_attention")
        for layer in self.layers:
            rows = layer.input_layernorm(torch.cat([context, x], 1))
            x = x + layer.self_attn(rows, rotations, mask[None, None])[0][:, first:]
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return model.lm_head(self.norm(x))[0, 1:]


# By name: the class, and the checkpoint that it extends.
HEADS = {"bailing_head": (BailingHead, "bailing_hybrid"), "glm5_head": (Glm5Head, "glm5_next"),
         "hy_v4_head": (HYV4Head, "hy_v4"), "minimax_m3_head": (MiniMaxM3Head, "minimax_m3"),
         "nemotron_h_head": (NemotronHHead, "nemotron_h_latent")}


def open_model(folder):
    with open(os.path.join(folder, "config.json")) as f:
        kind = getattr(transformers, json.load(f)["architectures"][0])
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def draw_all(module, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, p in module.named_parameters():
            p.copy_(families.draw(key, p, generator).bfloat16().float())
        for key, b in module.named_buffers():
            if "bias" in key:
                b.copy_((0.1 * torch.randn(b.shape, generator=generator)).bfloat16().float())


def run_head(model, head, ids):
    body = model.get_decoder()
    with torch.no_grad():
        hidden = body(torch.tensor([ids[:-1]]), use_cache=False).last_hidden_state
        seen, rows, draft_ids = list(ids[1:]), [], []
        for _ in range(families.N_STEPS):
            fed_back, out = head(body, torch.tensor([seen]), hidden)
            rows.append(model.lm_head(out)[0, -1])
            draft_ids.append(int(rows[-1].argmax()))
            seen.append(draft_ids[-1])
            hidden = torch.cat([hidden, fed_back[:, -1:]], 1)
    return torch.stack(rows), draft_ids


def write_drafts(path, propose):
    golden = {"ids": families.PROMPTS, "greedy": []}
    for k, prompt in enumerate(families.PROMPTS):
        rows, draft_ids = propose(prompt)
        golden["greedy"].append(draft_ids)
        np.save(os.path.join(path, "draft_logits_%d.npy" % k), rows.numpy())
        print(path, "largest logit %.2f" % rows.abs().max())
    families.write_golden(os.path.join(path, "golden_draft.json"), golden)


def write_files(path, tensors, modelfile):
    safetensors.torch.save_file({key: value.bfloat16().contiguous() for key, value in tensors.items()},
                                os.path.join(path, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(path, "Modelfile"), "w") as f:
        f.write(modelfile)


def make_head(folder, name):
    kind, base = HEADS[name]
    path, source = os.path.join(folder, name), os.path.join(folder, base)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, path)
    model = open_model(source)
    with open(os.path.join(path, "config.json")) as f:
        config = json.load(f)
    config.get("text_config", config)["num_nextn_predict_layers"] = 1
    families.write_golden(os.path.join(path, "config.json"), config)
    head = kind(model.config.get_text_config()).float().eval()
    draw_all(head, zlib.crc32(name.encode()))
    write_drafts(path, lambda ids: run_head(model, head, ids))
    tensors = safetensors.torch.load_file(os.path.join(source, "model.safetensors"))
    write_files(path, {**tensors, **dict(head.tensors())}, "FROM .\n")


def make_laguna(folder):
    path = os.path.join(folder, "laguna", "dflash")
    os.makedirs(path, exist_ok=True)
    model, draft = open_model(os.path.dirname(path)), LagunaDraft().float().eval()
    draw_all(draft, 7)

    def propose(ids):
        with torch.no_grad():
            rows = draft.propose(model, ids)
        return rows, rows.argmax(-1).tolist()

    write_drafts(path, propose)
    families.write_golden(os.path.join(path, "config.json"), LagunaDraft.CONFIG)
    write_files(path, dict(draft.tensors()), "FROM ..\nDRAFT .\n")


def main():
    for name in sys.argv[2:] or [*HEADS, "laguna/dflash"]:
        if name == "laguna/dflash":
            make_laguna(sys.argv[1])
        else:
            make_head(sys.argv[1], name)


if __name__ == "__main__":
    main()

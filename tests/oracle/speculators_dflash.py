#!/usr/bin/env python3
"""Make the block drafts of testdata/speculators: python3 speculators_dflash.py FOLDER

The speculators library does everything except making the target: it trains the drafts, saves and loads
them, and its forward pass gives the logits. All in float32, on weights rounded to bf16.

  target/   a Gemma 3 that was trained to count: x, x + s, x + 2 s, ... modulo 96. Of this family
            because its embeddings are scaled, which these drafts do not expect
  pruned/   a vocabulary of 72 tokens of its own (d2t, t2d, lm_head); reads the embeddings, what
            layer 1 makes, and what the last layer makes; a sliding layer that looks both ways
  anchored/ the target's tables; every row of a block predicts the token behind it; a sliding layer
            that looks back, biases
  dflash2/  DFlash2: convolutions over the block, and a selector that picks from the best five
            tokens of a row; draft_logits are from before it
  dflash2_anchored/ the same where every row predicts the token behind it
  dspark/   DSpark with a recurrent head, which the anchor's row steps though it predicts nothing;
            a vocabulary of its own; draft_logits are corrected
  dspark_anchored/ DSpark with a gated head, where every row predicts the token behind it

Each draft has golden.json (ids, the last one the anchor; greedy, the best ids of a block; output
and rounds, the target's greedy answer and how many draft tokens each round accepts) and
draft_logits_K.npy, float32 [draft tokens, draft vocabulary]. Fixed seed; three minutes. Needs
torch, transformers and speculators 0.9.0."""
import json
import os
import sys

import numpy as np
import torch
from speculators.losses.eager import ce_loss, tv_loss
from speculators.models.dflash import DFlashDraftModel
from speculators.models.dflash2 import DFlash2DraftModel
from speculators.models.dspark import DSparkDraftModel
from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, Qwen3Config

N_VOCAB, N_NUMBERS, MASK, N_PRUNED = 112, 96, 109, 72
CLASSES = {"dflash": DFlashDraftModel, "dflash2": DFlash2DraftModel, "dspark": DSparkDraftModel}
PROMPTS = [[3, 5, 7], [90, 93, 0, 3, 6, 9, 12, 15, 18, 21, 24],
           [(17 + 4 * i) % N_NUMBERS for i in range(30)] + [50 + i for i in range(12)]]


def count(n, length):
    """Return n counting rows, each of which changes its step occasionally."""
    x = torch.randint(0, N_NUMBERS, (n,))
    step = torch.randint(1, 6, (n,))
    rows = []
    for _ in range(length):
        rows.append(x)
        jump = torch.rand(n) < 0.03
        step = torch.where(jump, torch.randint(1, 6, (n,)), step)
        x = (x + step) % N_NUMBERS
    return torch.stack(rows, 1)


def round_weights(model):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16().float())


def train(model, n_steps, rate, loss_of):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, n_steps, pct_start=0.1)
    model.train()
    for step in range(n_steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == n_steps - 1:
            print(type(model).__name__, step, "%.3f" % loss.item(), flush=True)
    model.eval()


def vary_norms(model):
    """Change every norm from its neutral value, so that an omitted norm changes the logits."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name and p.requires_grad:
                p.add_(torch.randn_like(p) * 0.1)


def make_target(folder):
    config = Gemma3TextConfig(
        vocab_size=N_VOCAB, hidden_size=64, intermediate_size=32, num_hidden_layers=3,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16,
        sliding_window=12, max_position_embeddings=256, pad_token_id=None, bos_token_id=110,
        eos_token_id=111, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        attn_implementation="eager")
    model = Gemma3ForCausalLM(config)
    vary_norms(model)

    def loss():
        ids = count(32, 40)
        return model(input_ids=ids, labels=ids).loss

    train(model, 400, 1e-2, loss)
    round_weights(model)
    model.bfloat16().save_pretrained(folder)
    return Gemma3ForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                             attn_implementation="eager").eval()


def hidden_states(target, ids, layers):
    """Return the residual stream before each of these layers; n_layers stands for the final output."""
    last = []
    hook = target.model.layers[-1].register_forward_hook(
        lambda module, args, out: last.append(out[0] if isinstance(out, tuple) else out))
    with torch.no_grad():
        streams = list(target.model(ids, output_hidden_states=True).hidden_states[:-1])
    hook.remove()
    streams.append(last[0].view_as(streams[0]))
    return torch.cat([streams[j] for j in layers], -1), streams[-1]


def make_draft(folder, kind, target, layers, pruned=False, **options):
    layer = Qwen3Config(
        vocab_size=N_VOCAB, hidden_size=64, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=256,
        layer_types=["sliding_attention", "full_attention"], sliding_window=5,
        use_sliding_window=True, attention_bias=options.pop("bias", False),
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    maps = {}
    if pruned:
        frequencies = {int(i): 1 for i in torch.randperm(N_NUMBERS)[:N_PRUNED]}
        maps["d2t"], maps["t2d"] = build_vocab_mappings_from_distribution(frequencies, N_PRUNED,
                                                                          N_VOCAB)
    draft = CLASSES[kind].from_training_args(
        layer, draft_vocab_size=N_PRUNED if pruned else N_VOCAB, mask_token_id=MASK,
        target_layer_ids=layers, verifier_name_or_path="target", draft_attn_impl="eager", **maps,
        **options)
    vary_norms(draft)
    with torch.no_grad():
        for name, p in draft.named_parameters():
            if name.endswith(".bias"):
                p.normal_(0, 0.1)

    losses = {"loss_config": {"ce": (ce_loss, 1.0)}}
    if kind != "dflash":
        losses["tv_loss_fn"] = tv_loss

    def loss():
        ids = count(16, 40)
        states, final = hidden_states(target, ids, layers)
        documents = torch.arange(16).repeat_interleave(40)[None]
        mask = torch.ones(16, 40)
        mask[:, -draft.block_size:] = 0
        return draft(hidden_states=states.reshape(1, 640, -1), input_ids=ids.reshape(1, 640),
                     loss_mask=mask.reshape(1, 640), document_ids=documents, max_anchors=96,
                     verifier_last_hidden_states=final.reshape(1, 640, -1),
                     position_ids=torch.arange(40).repeat(16)[None], **losses)[1]

    train(draft, 300, 1e-2, loss)
    round_weights(draft)
    draft.bfloat16().save_pretrained(folder)


def propose(draft, target, ids):
    """Logits of the block that ids' last one is the anchor of, and the rows that they are made
    from; all of the block's."""
    # The tokens after the anchor are padding that no block attends to.
    padded = torch.tensor([ids + [1] * (draft.block_size + 1)])
    states, final = hidden_states(target, padded, draft.config.aux_hidden_state_layer_ids)
    mask = torch.zeros(1, padded.shape[1])
    mask[0, len(ids) - 1] = 1
    with torch.no_grad():
        hidden, logits = draft._backbone_forward(states, padded, mask, final,
                                                 torch.zeros_like(padded), max_anchors=1)[:2]
    return logits[0], hidden[0]


def lead_of(scores):
    """Return the distance between the best and the second best logit of each row."""
    two = scores.topk(2, -1).values
    return ((two[..., 0] - two[..., 1]) / scores.abs().max()).tolist()


def correct(draft, k, row, hidden, before):
    """Return row k's logits corrected by a Markov head; `before` are the tokens before the rows."""
    if not isinstance(draft, DSparkDraftModel):
        return row
    known = torch.tensor([before + [0] * (draft.block_size - len(before))])
    with torch.no_grad():
        return row + draft.markov_head.block_bias(prev_token_ids=known,
                                                  hidden_states=hidden[None])[0, k]


def draft_ids_of(draft, logits, hidden, anchor):
    """Return the best ids in sequence, their lead over the second best, and the logits of their rows."""
    first = 0 if draft.config.sample_from_anchor else 1
    before, gaps, rows = [anchor] * (first + 1), [], []
    for k in range(first, draft.block_size):
        row = correct(draft, k, logits[k], hidden, before)
        candidates, scores = torch.arange(len(row)), row
        if isinstance(draft, DFlash2DraftModel):
            with torch.no_grad():
                candidates, scores = draft.candidate_selector.select(row, hidden[k],
                                                                     torch.tensor(before[-1]))
        best = candidates[scores.argmax()]
        before.append((best if draft.d2t is None else best + draft.d2t[best]).item())
        gaps.append(lead_of(scores))
        rows.append(row)
    return before[first + 1:], gaps, torch.stack(rows)


def speculate(propose_ids, n_block, target, ids, n_tokens):
    """Return the target's greedy answer, and the number of draft tokens that each round accepts, up to the
    first nearly equal logits or the first round without space for a whole block."""
    with torch.no_grad():
        logits = target(torch.tensor([ids])).logits[0, -1:]
    wanted, gaps = logits.argmax(-1).tolist(), lead_of(logits)
    answer, rounds = list(wanted), []
    while min(gaps) > 1e-3 and len(answer) + n_block < n_tokens:
        draft_ids, gaps = propose_ids(ids + answer)
        with torch.no_grad():
            logits = target(torch.tensor([ids + answer + draft_ids])).logits[0]
        logits = logits[len(ids + answer) - 1:]
        wanted, more = logits.argmax(-1).tolist(), lead_of(logits)
        accepted = 0
        while accepted < len(draft_ids) and draft_ids[accepted] == wanted[accepted]:
            accepted += 1
        gaps = gaps[:accepted + 1] + more[:accepted + 1]
        if min(gaps) > 1e-3:
            rounds.append(accepted)
            answer += wanted[:accepted + 1]
    return answer, rounds


def write_golden(folder, target):
    with open(os.path.join(folder, "config.json")) as f:
        kind = json.load(f)["speculators_model_type"]
    draft = CLASSES[kind].from_pretrained(folder, dtype=torch.float32)
    draft.config.transformer_layer_config._attn_implementation = "eager"
    draft = CLASSES[kind].from_pretrained(folder, config=draft.config, dtype=torch.float32).eval()
    golden = {"kind": kind, "implementation": "speculators 0.9.0, float32", "target": "target",
              "ids": PROMPTS, "greedy": [], "output": [], "rounds": []}

    def propose_ids(ids):
        return draft_ids_of(draft, *propose(draft, target, ids), ids[-1])

    for k, ids in enumerate(PROMPTS):
        best, gaps, logits = propose_ids(ids)
        assert min(gaps) > 2e-4
        answer, rounds = speculate(lambda ids: propose_ids(ids)[:2], draft.block_size, target, ids, 100)
        golden["greedy"].append(best)
        golden["output"].append(answer)
        golden["rounds"].append(rounds)
        np.save(os.path.join(folder, "draft_logits_%d.npy" % k), logits.numpy())
        print(folder, ids[-3:], "->", best, logits.argmax(-1).tolist(), rounds)
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump(golden, f)
        f.write("\n")


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    os.chdir(sys.argv[1])
    torch.manual_seed(20)
    torch.set_num_threads(1)
    target = make_target("target")
    make_draft("pruned", "dflash", target, [0, 2, 3], True, block_size=6,
               sliding_window_non_causal=True)
    make_draft("anchored", "dflash", target, [1, 2], block_size=5, sample_from_anchor=True,
               bias=True)
    sizes = {"conv_kernel_size": 3, "conv_group_size": 32, "selector_rank": 12, "selector_top_k": 5}
    make_draft("dflash2", "dflash2", target, [1, 3], block_size=6, **sizes)
    make_draft("dflash2_anchored", "dflash2", target, [1, 2], block_size=5,
               sample_from_anchor=True, sliding_window_non_causal=False, **sizes)
    make_draft("dspark", "dspark", target, [1, 3], True, block_size=6, sample_from_anchor=False,
               markov_rank=12, markov_head_type="rnn")
    make_draft("dspark_anchored", "dspark", target, [1, 2], block_size=5, markov_rank=12,
               markov_head_type="gated")
    for name in ("pruned", "anchored", "dflash2", "dflash2_anchored", "dspark", "dspark_anchored"):
        write_golden(name, target)
        os.remove(os.path.join(name, "config.py"))
        with open(os.path.join(name, "Modelfile"), "w") as f:
            f.write("FROM ../target\nDRAFT .\n")


if __name__ == "__main__":
    main()

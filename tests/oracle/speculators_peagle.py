#!/usr/bin/env python3
"""Make the P-EAGLE drafts of testdata/speculators: python3 speculators_peagle.py FOLDER

FOLDER holds target/, as speculators_dflash.py makes it. The speculators library trains, saves, loads
and runs the drafts.

  peagle/         two layers of Llama's shape with biases; a vocabulary of 72 tokens of its own; all
                  taps normed together; the residual stream begins with the normed hidden state
  peagle_sliding/ two layers of Qwen3's shape, the first with a window that its last draft token just
                  fits into; every token of the target's; each tap normed apart, the embeddings too;
                  the target's embedding, of which it has a copy

The library's forward pass samples which positions it trains how deep (COD). To get the logits of
one proposal it is told: every pair at depth 0, the last one at all depths. Otherwise as in
speculators_dflash.py; two minutes."""
import json
import os
import sys
from unittest import mock

import numpy as np
import torch
from speculators.losses.eager import ce_loss
from speculators.models.peagle import core
from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution
from transformers import Gemma3ForCausalLM, LlamaConfig, Qwen3Config

from speculators_dflash import (MASK, N_NUMBERS, N_PRUNED, N_VOCAB, PROMPTS, count, hidden_states,
                                lead_of, round_weights, speculate, train, vary_norms)

N_DRAFT_TOKENS = 5
LOSS = {"ce": (ce_loss, 1.0)}
SHAPE = dict(vocab_size=N_VOCAB, hidden_size=64, intermediate_size=16, num_hidden_layers=2,
             num_attention_heads=2, num_key_value_heads=1, head_dim=16,
             max_position_embeddings=256, pad_token_id=None,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def pairs_of(states, final, ids):
    """Return each token with the state before it, and the state that its prediction uses, as the
    library's shift_batch does for a row."""
    return states[:, :-1], final[:, 1:], ids[:, 1:]


def make_draft(folder, layer, target, layers, n_steps, pruned=False, copied=False, **options):
    maps = {}
    if pruned:
        frequencies = {int(i): 1 for i in torch.randperm(N_NUMBERS)[:N_PRUNED]}
        maps["d2t"], maps["t2d"] = build_vocab_mappings_from_distribution(frequencies, N_PRUNED,
                                                                          N_VOCAB)
    draft = core.PEagleDraftModel.from_training_args(
        layer, draft_vocab_size=N_PRUNED if pruned else N_VOCAB, mask_token_id=MASK,
        num_depths=N_DRAFT_TOKENS, target_layer_ids=layers, verifier_name_or_path="target",
        draft_attn_impl="eager", **maps, **options)
    draft.config.embed_requires_grad = not copied
    draft.embed_tokens.weight.requires_grad_(not copied)
    vary_norms(draft)
    with torch.no_grad():
        for name, p in draft.named_parameters():
            if name.endswith(".bias"):
                p.normal_(0, 0.1)

    def loss():
        ids = count(16, 40)
        states, final, ids = pairs_of(*hidden_states(target, ids, layers), ids)
        mask = torch.ones(16, 39)
        mask[:, -N_DRAFT_TOKENS:] = 0
        return draft(hidden_states=states.reshape(1, 624, -1), input_ids=ids.reshape(1, 624),
                     document_ids=torch.arange(16).repeat_interleave(39)[None],
                     loss_mask=mask.reshape(1, 624), num_depths=N_DRAFT_TOKENS, loss_config=LOSS,
                     verifier_last_hidden_states=final.reshape(1, 624, -1))[1]

    train(draft, n_steps, 1e-2, loss)
    round_weights(draft)
    draft.bfloat16().save_pretrained(folder)


def propose(draft, target, ids):
    """Return the logits of the draft tokens after ids, whose last one the target has not processed."""
    # The tokens after the anchor are padding that the draft tokens do not attend to.
    padded = torch.tensor([ids + [1] * N_DRAFT_TOKENS])
    taps = draft.config.eagle_aux_hidden_state_layer_ids
    states, final, padded = pairs_of(*hidden_states(target, padded, taps), padded)
    n, last = padded.shape[1], len(ids) - 2
    anchors = torch.cat([torch.arange(n), torch.full((N_DRAFT_TOKENS - 1,), last)])
    depths = torch.cat([torch.zeros(n, dtype=torch.long), torch.arange(1, N_DRAFT_TOKENS)])
    made = []
    hook = draft.lm_head.register_forward_hook(lambda module, args, out: made.append(out))
    with torch.no_grad(), mock.patch.object(core, "generate_cod_sample_indices",
                                            return_value=(anchors, depths)):
        draft(hidden_states=states, input_ids=padded, verifier_last_hidden_states=final,
              document_ids=torch.zeros(1, n, dtype=torch.long), num_depths=N_DRAFT_TOKENS,
              loss_config=LOSS)
    hook.remove()
    return torch.cat([made[0][0, last:last + 1], made[0][0, n:]])


def write_golden(folder, target):
    draft = core.PEagleDraftModel.from_pretrained(folder, dtype=torch.float32)
    draft.config.transformer_layer_config._attn_implementation = "eager"
    draft = core.PEagleDraftModel.from_pretrained(folder, config=draft.config,
                                                  dtype=torch.float32).eval()

    def propose_ids(ids):
        logits = propose(draft, target, ids)
        best = logits.argmax(-1)
        return (best if draft.d2t is None else best + draft.d2t[best]).tolist(), lead_of(logits)

    golden = {"kind": "peagle", "implementation": "speculators 0.9.0, float32", "target": "target",
              "ids": PROMPTS, "greedy": [], "output": [], "rounds": []}
    for k, ids in enumerate(PROMPTS):
        best, gaps = propose_ids(ids)
        assert min(gaps) > 2e-4
        answer, rounds = speculate(propose_ids, N_DRAFT_TOKENS + 1, target, ids, 100)
        golden["greedy"].append(best)
        golden["output"].append(answer)
        golden["rounds"].append(rounds)
        np.save(os.path.join(folder, "draft_logits_%d.npy" % k), propose(draft, target, ids).numpy())
        print(folder, ids[-3:], "->", best, rounds)
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump(golden, f)
        f.write("\n")


def main():
    os.chdir(sys.argv[1])
    torch.set_num_threads(1)
    target = Gemma3ForCausalLM.from_pretrained("target", dtype=torch.float32,
                                               attn_implementation="eager").eval()
    torch.manual_seed(21)
    make_draft("peagle", LlamaConfig(attention_bias=True, **SHAPE), target, [1, 3], 400,
               pruned=True, norm_before_residual=True, norm_before_fc=True)
    sliding = Qwen3Config(layer_types=["sliding_attention", "full_attention"], sliding_window=5,
                          use_sliding_window=True, **SHAPE)
    torch.manual_seed(23)
    make_draft("peagle_sliding", sliding, target, [0, 2], 150, copied=True, fc_norm=True)
    for name in ("peagle", "peagle_sliding"):
        write_golden(name, target)
        os.remove(os.path.join(name, "config.py"))
        with open(os.path.join(name, "Modelfile"), "w") as f:
            f.write("FROM ../target\nDRAFT .\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Write the model and the expected values of test_input_stats: python3 expert_inputs.py FOLDER

A small mixture of experts (Mixtral, random weights) is saved as FOLDER/experts. transformers runs 96 ids through it in
double precision; what the down projection of each expert reads is computed here from the recorded input of the layer
and the router's choice:

  FOLDER/vectors/expert_inputs.txt  layer, expert, column, sum of squares (f64 bits); all in hex

Needs torch, transformers."""
import os
import struct
import sys

import torch
from transformers import MixtralConfig, MixtralForCausalLM

N_IDS, VOCAB, HIDDEN, WIDTH, EXPERTS, USED = 96, 128, 32, 64, 4, 2
IDS = [(i * i * 7 + 13 * i) % VOCAB for i in range(N_IDS)]


def main():
    out = sys.argv[1]
    torch.manual_seed(5)
    config = MixtralConfig(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=WIDTH, num_hidden_layers=2,
                           num_attention_heads=4, num_key_value_heads=2, num_local_experts=EXPERTS,
                           num_experts_per_tok=USED, max_position_embeddings=256, sliding_window=None,
                           initializer_range=0.2, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model = MixtralForCausalLM(config).to(torch.bfloat16)
    folder = os.path.join(out, "experts")
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    model = MixtralForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                experts_implementation="eager")
    inputs = {}
    for i, layer in enumerate(model.model.layers):
        layer.mlp.register_forward_hook(lambda _, args, __, i=i: inputs.update({i: args[0][0]}))
    with torch.no_grad():
        model(torch.tensor([IDS]))
        with open(os.path.join(out, "vectors", "expert_inputs.txt"), "w") as f:
            for i, layer in enumerate(model.model.layers):
                x, mlp = inputs[i], layer.mlp
                chosen = torch.topk(x @ mlp.gate.weight.T, USED).indices
                for e in range(EXPERTS):
                    rows = x[(chosen == e).any(-1)]
                    gate, up = (rows @ mlp.experts.gate_up_proj[e].T).chunk(2, -1)
                    squares = (torch.nn.functional.silu(gate) * up).pow(2).sum(0)
                    for k, s in enumerate(squares.tolist()):
                        f.write("%x %x %x %016x\n" % (i, e, k, struct.unpack("<Q", struct.pack("<d", s))[0]))


if __name__ == "__main__":
    main()

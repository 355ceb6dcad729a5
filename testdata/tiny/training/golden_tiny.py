"""Golden values of the trained tiny models, computed in float32 by transformers and by z-lab's decoder (package dflash).

usage: golden_tiny.py MODELS OUT OUT_ODD    (MODELS has target/ dflash/ ar/)
golden_target.json / golden_ar.json + logits_*.npy: as in oracle/; golden_dflash.json: per prompt ids, output ids, and rounds
[{"drafted", "accepted", "gap"}]: gap = smallest distance between the two best logits (target rows used, draft rows used) in that round.
The even prompts go to OUT (the files beside this folder), the odd ones to OUT_ODD.
"""
import json, os, sys
import numpy as np
import torch
from dflash.model import DFlashDraftModel, dflash_generate, extract_context_feature
from transformers import AutoModelForCausalLM
from tokenizers import Tokenizer

CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = ["Once upon a time", CHAT.format("What is 7 plus 8?"), "Once upon a time there was a shy hen named Nora.", CHAT.format("What is the capital of Norway?"),
           CHAT.format("Write a story about a brave fox named Leo."), CHAT.format("Tell me a story about a lonely owl."), CHAT.format("Count from 3 to 15."), CHAT.format("Count from 2 to 12."),
           CHAT.format("Write a C function that adds two numbers."), CHAT.format("Write a C function that multiplies two numbers."), "def ", "int ", CHAT.format("List three animals."), CHAT.format("List four foods."),
           "Long ago, a clever goat named Max lived in", "There was once a curious cat called Zoe.", CHAT.format("What is the opposite of hot?"), CHAT.format("What does a duck say?"),
           "The", "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n",
           CHAT.format("How many legs does a spider have?"), CHAT.format("What day comes after Monday?"), "x", "for (int i = 0; i < 10; i++) {"]
N = 128


def gap(row):
    t = row.topk(2).values
    return (t[0] - t[1]).item()


@torch.inference_mode()
def rounds(model, target, ids, n):
    """The same loop as the package's, without caches, noting the gaps."""
    out, stats, head = list(ids), [], target.get_output_embeddings()
    o = target(torch.tensor([out]), output_hidden_states=True)
    out.append(o.logits[0, -1].argmax().item())
    first = gap(o.logits[0, -1])
    end = len(ids) + n
    while len(out) < end:
        start = len(out) - 1
        size = min(model.block_size, end - start)
        if size == 1:
            break
        feat = extract_context_feature(target(torch.tensor([out[:-1]]), output_hidden_states=True).hidden_states, model.target_layer_ids)
        block = torch.full((1, size), model.mask_token_id)
        block[0, 0] = out[-1]
        h = model(target_hidden=feat, noise_embedding=target.get_input_embeddings()(block), position_ids=torch.arange(start + size)[None])[:, 1:]
        dl = model.compute_logits(h, head)[0]
        drafts = dl.argmax(-1).tolist()
        tl = target(torch.tensor([out + drafts])).logits[0, start:]
        best = tl.argmax(-1).tolist()
        a = 0
        while a < len(drafts) and drafts[a] == best[a]:
            a += 1
        g = min([gap(tl[i]) for i in range(a + 1)] + [gap(dl[i]) for i in range(min(a + 1, len(drafts)))])
        new = (drafts[:a] + [best[a]])[:end - len(out)]
        out += new
        stats.append(dict(drafted=len(drafts), accepted=a, gap=round(g, 6)))
    return out, stats, first


def main():
    src, even, odd = sys.argv[1:4]
    tok = Tokenizer.from_file(src + "/target/tokenizer.json")
    target = AutoModelForCausalLM.from_pretrained(src + "/target", dtype=torch.float32, attn_implementation="eager").eval()
    ar = AutoModelForCausalLM.from_pretrained(src + "/ar", dtype=torch.float32, attn_implementation="eager").eval()
    draft = DFlashDraftModel.from_pretrained(src + "/dflash", dtype=torch.float32).eval()
    total = []
    for which, out in ((0, even), (1, odd)):
        os.makedirs(out, exist_ok=True)
        gd = []
        for p in PROMPTS[which::2]:
            ids = tok.encode(p, add_special_tokens=False).ids
            seq, st, first = rounds(draft, target, ids, N)
            ref = dflash_generate(draft, target, torch.tensor([ids]), N, None, return_stats=False)[0].tolist()
            assert ref == seq, (p, len(ref), len(seq), [i for i in range(min(len(ref), len(seq))) if ref[i] != seq[i]][:3])
            gd.append(dict(prompt=p, ids=ids, output=seq[len(ids):], first_gap=round(first, 6), rounds=st))
            total += [s["accepted"] for s in st[:-1]]
        json.dump(gd, open(out + "/golden_dflash.json", "w"))
        for name, m in (("target", target), ("ar", ar)):
            g = dict(prompts=[], greedy=[])
            for k, p in enumerate(PROMPTS[which::2][:4]):
                ids = tok.encode(p, add_special_tokens=False).ids
                with torch.no_grad():
                    np.save(f"{out}/{name}_logits_{k}.npy", m(torch.tensor([ids])).logits[0].numpy())
                    cur, small = torch.tensor([ids]), 1e9
                    for _ in range(64):
                        l = m(cur).logits[0, -1]
                        small = min(small, gap(l))
                        cur = torch.cat([cur, l.argmax().view(1, 1)], 1)
                g["prompts"].append(ids)
                g["greedy"].append(dict(ids=cur[0, len(ids):].tolist(), smallest_margin=small))
            json.dump(g, open(f"{out}/golden_{name}.json", "w"))
    print("mean accepted per round", np.mean(total), "tokens per target pass", np.mean(total) + 1, "rounds", len(total))


main()

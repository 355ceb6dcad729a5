#!/usr/bin/env python3
"""Compare the output of `spectool export` with the packed checkpoints:

    python3 exports.py SPECTOOL FOLDER... [--logits] [--work DIR]

Each FOLDER is a checkpoint (with a Modelfile in it: that pair). It is packed in its stored types and
exported. Exactly the tensors of the source must be in the export, bit for bit, and packing the export
must give the same tensors, byte for byte. With --logits transformers loads
the exported target, and its logits must equal those of golden.json and logits_K.npy. Of a quantized
checkpoint only the logits are compared, with --type f32, since its goldens use dequantized weights.

Tensors that a packed file does not store (towers, unused keys, a head equal to the embedding) are not
compared; their names are below. Needs numpy, safetensors; for --logits torch and
transformers 5."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

from safetensors import safe_open

SKIPPED = re.compile(r"(^|\.)(vision_tower|vision_model|visual|multi_modal_projector|audio_tower|"
                     r"embed_vision|embed_audio)\.|rotary_emb\.inv_freq$|"
                     r"\.[qkv]_scale$|layers\.\d+\.shared_head\.head\.|"
                     r"layers\.\d+\.embed_tokens\.")
WRAPPED = [("model.language_model.", "model."), ("language_model.model.", "model."),
           ("language_model.lm_head.", "lm_head.")]


def tensors(folder):
    """Return name -> (dtype, shape, bytes) of every tensor in the folder's weights files."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, name), "rb") as f:
            size = int.from_bytes(f.read(8), "little")
            header = json.loads(f.read(size))
            header.pop("__metadata__", None)
            for key, t in header.items():
                begin, end = t["data_offsets"]
                f.seek(8 + size + begin)
                found[key] = (t["dtype"], t["shape"], f.read(end - begin))
        with safe_open(os.path.join(folder, name), "np") as f:  # the reference reader agrees
            assert set(f.keys()) == set(header), name
    return found


def inner(name):
    for outer, short in WRAPPED:
        if name.startswith(outer):
            return short + name[len(outer):]
    return name


def compare(source, export, target=None):
    """Return the differences as sentences. target: the export whose embedding a draft may read."""
    wrong = []
    config = json.load(open(os.path.join(export, "config.json")))
    shared = config.get("num_kv_shared_layers") or 0
    first_shared = config["num_hidden_layers"] - shared if shared else None
    want = {}
    for name, t in tensors(source).items():
        if not SKIPPED.search(name):
            want[inner(name)] = t
    have = tensors(export)
    for name, t in want.items():
        unused = re.match(r"model\.layers\.(\d+)\.self_attn\.(k_proj|v_proj|k_norm)\.", name)
        if unused and first_shared is not None and int(unused[1]) >= first_shared:
            continue
        if name == "lm_head.weight" and name not in have:
            if t[2] != want["model.embed_tokens.weight"][2]:
                wrong.append("lm_head.weight is missing and is not the embedding")
        elif name == "embed_tokens.weight" and name not in have and target:
            if t[2] != tensors(target)["model.embed_tokens.weight"][2]:
                wrong.append("embed_tokens.weight is missing and is not the target's")
        elif name not in have:
            wrong.append(f"{name} is missing")
        elif have[name] != t:
            wrong.append(f"{name} differs: {t[:2]} became {have[name][:2]}")
    wrong += [f"{name} is new" for name in have if name not in want]
    return wrong


def run(*args):
    p = subprocess.run(args, capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"{' '.join(args)}: exit {p.returncode}: {p.stderr.strip()}")
    return p.stdout


def digests(spectool, packed):
    """Return part, name, type, layout, shape and digest of every tensor, as printed by show."""
    return json.loads(run(spectool, "show", "--tensors", "--json", packed))["tensors"]


def logits(export, source):
    """Return the largest relative error of transformers' logits on the export."""
    import numpy as np
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        export, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    bad = {k: sorted(v) for k, v in info.items() if k in ("missing_keys", "mismatched_keys") and v}
    unexpected = [k for k in info.get("unexpected_keys", [])
                  if not k.startswith("mtp.") and not re.match(r"model\.layers\.\d+\.", k)]
    if bad or unexpected:
        raise RuntimeError(f"loading says {bad} {unexpected}")
    model.eval()
    golden = json.load(open(os.path.join(source, "golden.json")))
    worst = 0.0
    for k, prompt in enumerate(golden["prompts"]):
        want = np.load(os.path.join(source, f"logits_{k}.npy"))
        with torch.no_grad():
            have = model(torch.tensor([prompt]), use_cache=False).logits[0].numpy()
        worst = max(worst, float(abs(have - want).max() / abs(want).max()))
    return worst


def check(spectool, folder, work, with_logits):
    packed, again = os.path.join(work, "packed.bin"), os.path.join(work, "again.bin")
    export, modelfile = os.path.join(work, "export"), os.path.join(folder, "Modelfile")
    shutil.rmtree(export, ignore_errors=True)
    if not os.path.exists(modelfile):
        modelfile = os.path.join(work, "Modelfile")
        with open(modelfile, "w") as f:
            f.write(f"FROM {os.path.abspath(folder)}\n")
    quantized = "quantization_config" in json.load(open(os.path.join(folder, "config.json")))
    run(spectool, "create", "-f", modelfile, "-o", packed, "--force")
    run(spectool, "export", packed, export, *(["--type", "f32"] if quantized else []))
    text = open(modelfile).read()
    own = os.path.join(export, "target")
    wrong, said = [], []
    if quantized:
        if "quantization_config" in json.load(open(os.path.join(own, "config.json"))):
            wrong.append("config.json still says that it is quantized")
    elif "DRAFT" in text:
        source = re.search(r"^FROM (.*)$", text, re.M)[1]
        wrong += compare(os.path.join(os.path.dirname(modelfile), source), own)
        wrong += compare(folder, os.path.join(export, "draft"), own)
    else:
        wrong += compare(folder, own)
    run(spectool, "create", "-f", os.path.join(export, "Modelfile"), "-o", again, "--force")
    if not quantized:
        if digests(spectool, packed) != digests(spectool, again):
            wrong.append("packed again, its tensors differ")
        same = open(packed, "rb").read() == open(again, "rb").read()
        said.append("packed again, the " + ("files" if same else "files' tensors") + " are the same")
    if with_logits and os.path.exists(os.path.join(folder, "logits_0.npy")):
        worst = logits(os.path.join(export, "target"), folder)
        said.append(f"logits within {worst:.1e}")
        if not worst < 1e-4:
            wrong.append("transformers' logits differ")
    return wrong, said


def main():
    args = argparse.ArgumentParser()
    args.add_argument("spectool")
    args.add_argument("folders", nargs="+")
    args.add_argument("--logits", action="store_true")
    args.add_argument("--work", default="exports-work")
    args = args.parse_args()
    os.makedirs(args.work, exist_ok=True)
    failed = 0
    for folder in args.folders:
        try:
            wrong, said = check(args.spectool, folder.rstrip("/"), args.work, args.logits)
        except Exception as e:
            wrong, said = [str(e)], []
        failed += bool(wrong)
        print("FAILED" if wrong else "ok    ", folder, "; ".join(wrong[:5] or said), flush=True)
    print(f"{len(args.folders) - failed} ok, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

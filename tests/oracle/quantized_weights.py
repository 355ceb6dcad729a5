"""Weights of quantized checkpoints, and what they are as floats, for tests/convert/test_quantized_golden.c.

Cuts one module out of each checkpoint of ../shared/oracle/sources, which the real libraries wrote, and
dequantizes it: with mlx (affine, mxfp4, nvfp4, mxfp8), with bitsandbytes (nf4, fp4, int8), and for the
others, whose libraries round to f16 or bf16 at run time, by the formula of the layout in numpy. Scales
are widened to float32 before anything else.

    python tests/oracle/quantized_weights.py ../shared/oracle/sources testdata/quantized

writes NAME.safetensors, NAME.json (a config.json) and golden.txt: name, weight, rows, columns and FNV-1a
of the little-endian float32 numbers. Ternary weights are packed by
transformers, which also dequantizes those of DeepSeek-V4. Needs numpy, mlx, torch, transformers and bitsandbytes.
"""
import json
import struct
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np

TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4", "U32": "<u4", "U8": "u1", "I8": "i1",
         "F8_E4M3": "u1", "I64": "<i8"}


def read(folder):
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        for name, t in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = t["data_offsets"]
                tensors[name] = (t["dtype"], t["shape"], data[8 + size + begin:8 + size + end])
    return tensors


def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in sorted(tensors.items()):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def numbers(tensor):
    dtype, shape, content = tensor
    x = np.frombuffer(content, TYPES[dtype])
    if dtype == "BF16":
        x = (x.astype("<u4") << 16).view("<f4")
    return (x.astype("<f4") if dtype == "F16" else x).reshape(shape)


def fields(words, bits, count):
    """Codes along the last axis of 32-bit words, lowest bits first."""
    words = np.ascontiguousarray(words)
    stream = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    codes = stream[..., :count * bits].reshape(*words.shape[:-1], count, bits)
    return (codes << np.arange(bits, dtype=np.uint8)).sum(-1).astype(np.int64)


def mlx_weight(part, quantization, path):
    own = quantization.get(path)
    how = own if isinstance(own, dict) else quantization
    mode = how.get("mode", "affine")
    words = mx.array(numbers(part("weight")).view(np.uint32))
    scales = mx.array(numbers(part("scales")))
    biases = mx.array(numbers(part("biases"))) if mode == "affine" else None
    out = mx.dequantize(words, scales, biases, group_size=how["group_size"], bits=how["bits"], mode=mode,
                        dtype=mx.float32)
    return np.array(out)


def scaled(codes, zeros, scales, groups):
    return (codes - zeros[:, groups]).astype(np.float32) * scales[:, groups]


def gptq_weight(part, config, bits, less_one):
    words = numbers(part("qweight")).view(np.uint32)
    rows, cols = words.shape[1], words.shape[0] * 32 // bits
    codes = fields(words.T, bits, cols)
    stored = numbers(part("qzeros")).view(np.uint32)
    if less_one and bits != 3:
        stored = stored + np.uint32({2: 0x55555555, 4: 0x11111111, 8: 0x01010101}[bits])
    zeros = fields(stored, bits, rows)
    if less_one and bits == 3:
        zeros = (zeros + 1) & 7
    scales = numbers(part("scales"))
    index = part("g_idx")
    if index:
        groups = numbers(index)
    else:
        group = config["group_size"] if config["group_size"] > 0 else cols
        groups = np.arange(cols) // group
    return scaled(codes, zeros.T, scales.T, groups)


def awq_fields(words):
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    codes = fields(words, 4, words.shape[1] * 8).reshape(words.shape[0], -1, 8)
    return codes[:, :, order].reshape(words.shape[0], -1)


def awq_weight(part, config, version):
    words = numbers(part("qweight")).view(np.uint32)
    zeros, scales = numbers(part("qzeros")).view(np.uint32), numbers(part("scales"))
    cols = words.shape[1] * 8 if version == "gemv" else words.shape[0]
    group = config["group_size"] if config["group_size"] > 0 else cols
    groups = np.arange(cols) // group
    if version == "gemv":
        return scaled(fields(words, 4, cols), fields(zeros, 4, zeros.shape[1] * 8), scales, groups)
    return scaled(awq_fields(words).T, awq_fields(zeros).T, scales.T, groups)


def bnb_weight(part):
    import torch
    from bitsandbytes.functional import QuantState, dequantize_4bit, int8_vectorwise_dequant

    def tensor(name):
        return torch.from_numpy(numbers(part(name)).copy())

    if part("SCB"):
        return int8_vectorwise_dequant(tensor("weight"), tensor("SCB")).numpy()
    quant = next(k for k in ("nf4", "fp4") if part(f"weight.quant_state.bitsandbytes__{k}"))
    names = ["absmax", "quant_map", "nested_absmax", "nested_quant_map", f"quant_state.bitsandbytes__{quant}"]
    parts = {f"weight.{n}": tensor(f"weight.{n}") for n in names if part(f"weight.{n}")}
    state = QuantState.from_dict(parts, device=torch.device("cpu"))
    state.dtype = torch.float32
    return dequantize_4bit(tensor("weight"), state).numpy()


def ct_weight(part, bits, group):
    rows, cols = numbers(part("weight_shape"))
    codes = fields(numbers(part("weight_packed")).view(np.uint32), bits, int(cols))
    scales = numbers(part("weight_scale"))
    index = part("weight_g_idx")
    groups = numbers(index) if index else np.arange(cols) // (group or cols)
    return scaled(codes, np.full(scales.shape, 1 << (bits - 1)), scales, groups)


def weight(part, config, path):
    if "quantization" in config:
        return mlx_weight(part, config["quantization"], path)
    q = config["quantization_config"]
    method = q["quant_method"]
    if method == "bitsandbytes":
        return bnb_weight(part)
    if method == "compressed-tensors":
        w = q["config_groups"]["group_0"]["weights"]
        return ct_weight(part, w["num_bits"], w["group_size"])
    packing = q.get("packing_format", "")
    if method == "awq" or packing.endswith("awq"):
        return awq_weight(part, q, q.get("version", "gemm"))
    less_one = q.get("checkpoint_format", "gptq") == "gptq" if method == "gptq" else packing.endswith("gptq")
    bits = numbers(part("qzeros")).shape[1] * 32 // numbers(part("scales")).shape[1]
    return gptq_weight(part, q, bits, less_one)


def bitnet_case(linear_class):
    """The tensors of a ternary module as transformers packs them, and its floats."""
    import torch
    from transformers.integrations.bitnet import pack_weights

    codes = np.random.default_rng(1).integers(-1, 2, (64, 128))
    scale = torch.tensor([23.5 if linear_class == "bitlinear" else 0.037], dtype=torch.bfloat16)
    packed = pack_weights(torch.from_numpy(codes).float()).numpy()
    factor = scale.float().numpy()
    values = codes.astype("<f4") * (np.float32(1) / factor if linear_class == "bitlinear" else factor)
    path = "model.layers.0.self_attn.k_proj"
    tensors = {f"{path}.weight": ("U8", list(packed.shape), packed.tobytes()),
               f"{path}.weight_scale": ("BF16", [1], scale.view(torch.int16).numpy().tobytes())}
    config = {"quantization_config": {"quant_method": "bitnet", "linear_class": linear_class,
                                      "quantization_mode": "offline"}}
    return tensors, config, path, values


def deepseek_case(four):
    """A weight as DeepSeek-V4 publishes it: bytes in blocks of 128 x 128, or of an expert pairs of e2m1."""
    import torch
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    rng = np.random.default_rng(2)
    rows, cols = (16, 64) if four else (256, 128)
    codes = rng.integers(0, 256 if four else 127, (rows, cols // 2 if four else cols)).astype(np.uint8)
    if not four:
        codes |= rng.integers(0, 2, codes.shape).astype(np.uint8) << 7  # no NaN
    scales = rng.integers(110, 135, (rows, cols // 32) if four else (rows // 128, cols // 128)).astype(np.uint8)
    values = Fp8Dequantize(None)._dequantize_one(
        torch.from_numpy(codes).view(torch.int8 if four else torch.float8_e4m3fn),
        torch.from_numpy(scales).view(torch.float8_e8m0fnu), torch.float32).numpy()
    path = "layers.0.ffn.experts.0.w1" if four else "layers.0.attn.wq_a"
    tensors = {f"{path}.weight": ("I8" if four else "F8_E4M3", list(codes.shape), codes.tobytes()),
               f"{path}.scale": ("F8_E8M0", list(scales.shape), scales.tobytes())}
    config = {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "scale_fmt": "ue8m0",
                                      "activation_scheme": "dynamic", "expert_dtype": "fp4",
                                      "weight_block_size": [128, 128]}}
    return tensors, config, path, values


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return h


MODULES = {"gptq_2": "model.layers.0.self_attn.q_proj", "mlx_deepseek_v3": "model.layers.0.self_attn.embed_q", "mlx_mixtral": "model.layers.0.block_sparse_moe.gate",
           "mlx_overrides": "model.layers.1.self_attn.k_proj", "gptq_dynamic_head": "model.layers.0.mlp.down_proj",
           "mlx_qwen3_5": "language_model.model.layers.0.mlp.down_proj", "awq_moe": "model.layers.0.mlp.experts.1.down_proj",
           "gptq_moe": "model.layers.0.mlp.experts.1.down_proj"}
LEFT_OUT = ("gguf", "fp8", "ct_fp8", "ct_mxfp4", "mlx_gemma3", "mlx_qwen3_moe")


def add_case(out, lines, name, tensors, kept, path, dequantized):
    write(out / f"{name}.safetensors", tensors)
    (out / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    values = np.ascontiguousarray(dequantized, "<f4")
    values = values.reshape(-1, values.shape[-1])
    lines.append(f"{name} {path}.weight {values.shape[0]} {values.shape[1]} {fnv(values.tobytes()):016x}")


def main():
    sources, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(exist_ok=True)
    lines = []
    for linear_class in ("autobitlinear", "bitlinear"):
        add_case(out, lines, f"bitnet_{linear_class}", *bitnet_case(linear_class))
    for four in (False, True):
        add_case(out, lines, f"deepseek_{'fp4' if four else 'fp8'}", *deepseek_case(four))
    for folder in sorted(p for p in sources.iterdir() if p.is_dir() and not p.name.startswith(LEFT_OUT)):
        config = json.loads((folder / "config.json").read_text())
        beside = folder / "quantize_config.json"
        if beside.exists():
            config["quantization_config"] = {"quant_method": "gptq", **json.loads(beside.read_text())}
        path = MODULES.get(folder.name, "model.layers.0.self_attn.k_proj")
        tensors = {k: v for k, v in read(folder).items() if k.startswith(path + ".") and k != path + ".bias"}
        dequantized = weight(lambda end: tensors.get(f"{path}.{end}"), config, path)
        kept = {k: config[k] for k in ("quantization", "quantization_config") if k in config}
        if "quantization" in kept:
            kept.pop("quantization_config", None)
        add_case(out, lines, folder.name, tensors, kept, path, dequantized)
    (out / "golden.txt").write_text("\n".join(sorted(lines)) + "\n")


main()

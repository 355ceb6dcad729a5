#!/usr/bin/env python3
"""Write the expected values of test_ggml_blocks: python3 gguf_vectors.py FOLDER

Blocks of random bytes, and what the gguf package (pip install gguf, 0.19) makes of them. One block a line, numbers in hex:

  ggml_32.txt   type, 34 bytes (the block, then zeros), 32 weights (f32 bits)
  ggml_64.txt   type, 36 bytes, 64 weights
  ggml_128.txt  type, 18 bytes, 128 weights
  ggml_256.txt  type, 210 bytes (the block, then zeros), 256 weights (f32 bits)
  ggml_grids.txt  type, 110 bytes, 256 weights: the types whose weights are points of grids
  ggml_grid_digests.txt  type, FNV-1a of the weights of 1024 blocks that drawn_blocks() draws, which have every point

The package does not dequantize Q1_0 and Q2_0; their weights are computed from the definition in ggml-quants.c.

Fixed seed; scales that are not finite are drawn again."""
import os
import sys

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

SMALL = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.IQ4_NL, T.MXFP4]
SUPER = [T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_XS, T.TQ1_0, T.TQ2_0]
GRIDS = [T.IQ1_S, T.IQ1_M, T.IQ2_XXS, T.IQ2_XS, T.IQ2_S, T.IQ3_XXS, T.IQ3_S]
Q2_0 = 42


def weights_of(block, kind):
    if kind not in (T.Q1_0, Q2_0):
        return dequantize(block[None], kind)[0]
    d = block[:2].view(np.float16).astype(np.float32)
    if kind == Q2_0:
        return (d * ((block[2:, None] >> np.arange(0, 8, 2) & 3).astype(np.float32) - 1)).reshape(-1)
    return np.where(np.unpackbits(block[2:], bitorder="little"), d, -d)


def drawn_blocks(size, count):
    """Blocks of the high bytes of a linear congruential sequence that begins with the size of a block."""
    state = size
    for _ in range(count):
        block = np.empty(size, np.uint8)
        for i in range(size):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            block[i] = state >> 56
        yield block


def digest(kind):
    """FNV-1a of the bits of all weights, word by word, of the blocks whose weights are finite."""
    h = 0xcbf29ce484222325
    for block in drawn_blocks(GGML_QUANT_SIZES[kind][1], 1024):
        values = dequantize(block[None], kind)[0]
        if np.isfinite(values).all():
            for bits in values.astype("<f4").view("<u4").tolist():
                h = (h ^ bits) * 0x100000001b3 % 2**64
    return h


def write(path, types, room, count, random):
    with open(path, "w") as f:
        for kind in types:
            size = 18 if kind == Q2_0 else GGML_QUANT_SIZES[kind][1]
            left = count
            while left:
                block = random.integers(0, 256, size, dtype=np.uint8)
                values = weights_of(block, kind)
                if not np.isfinite(values).all():
                    continue
                bits = values.astype("<f4").view("<u4")
                padded = list(block) + [0] * (room - size)
                f.write(" ".join([f"{int(kind):x}"] + [f"{b:x}" for b in padded] + [f"{b:x}" for b in bits]) + "\n")
                left -= 1


def main():
    random = np.random.default_rng(25)
    write(os.path.join(sys.argv[1], "ggml_32.txt"), SMALL, 34, 8, random)
    write(os.path.join(sys.argv[1], "ggml_256.txt"), SUPER, 210, 4, random)
    write(os.path.join(sys.argv[1], "ggml_64.txt"), [T.NVFP4, Q2_0], 36, 12, random)
    write(os.path.join(sys.argv[1], "ggml_128.txt"), [T.Q1_0], 18, 4, random)
    write(os.path.join(sys.argv[1], "ggml_grids.txt"), GRIDS, 110, 2, random)
    with open(os.path.join(sys.argv[1], "ggml_grid_digests.txt"), "w") as f:
        for kind in GRIDS:
            f.write(f"{int(kind):x} {digest(kind):x}\n")


main()

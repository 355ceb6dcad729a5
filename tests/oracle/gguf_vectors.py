#!/usr/bin/env python3
"""Write the expected values of test_ggml_blocks: python3 gguf_vectors.py FOLDER

Blocks of random bytes, and what the gguf package (pip install gguf, 0.19) makes of them. One block a line, numbers in hex:

  ggml_32.txt   type, 34 bytes (the block, then zeros), 32 weights (f32 bits)
  ggml_64.txt   type, 36 bytes, 64 weights
  ggml_256.txt  type, 210 bytes (the block, then zeros), 256 weights (f32 bits)

Fixed seed; scales that are not finite are drawn again."""
import os
import sys

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

SMALL = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.IQ4_NL, T.MXFP4]
SUPER = [T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_XS, T.TQ1_0, T.TQ2_0]


def write(path, types, room, count, random):
    with open(path, "w") as f:
        for kind in types:
            size = GGML_QUANT_SIZES[kind][1]
            left = count
            while left:
                block = random.integers(0, 256, size, dtype=np.uint8)
                values = dequantize(block[None], kind)[0]
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
    write(os.path.join(sys.argv[1], "ggml_64.txt"), [T.NVFP4], 36, 12, random)


main()

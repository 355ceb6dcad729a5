#!/usr/bin/env python3
"""Write quantize/ggml_grids.c: python3 gguf_grids.py FILE

The grids of the types IQ1 to IQ3 as constants of the format, read from the gguf package (pip install gguf, 0.19). A
point has 8 coordinates of 2 bits or 4 of 3 bits, the first in the lowest bits; four points are one number."""
import sys

import gguf.quants as quants

HEAD = """/* The grids, written by tests/oracle/gguf_grids.py from those of the gguf package of llama.cpp. They
 * are constants of the format that no rule generates. */
#include "quantize/ggml_blocks.h"
"""
GRIDS = [("iq2_xxs", quants.IQ2_XXS), ("iq2_xs", quants.IQ2_XS), ("iq2_s", quants.IQ2_S),
         ("iq3_xxs", quants.IQ3_XXS), ("iq3_s", quants.IQ3_S), ("iq1", quants.IQ1_S)]

def points(kind):
    kind.init_grid()
    values, bits = list(kind.grid_map), 2 if kind.grid_shape[1] == 8 else 3
    for point in kind.grid.reshape(kind.grid_shape):
        yield sum(values.index(x) << bits * i for i, x in enumerate(point))

def main():
    with open(sys.argv[1], "w") as f:
        f.write(HEAD)
        for name, kind in GRIDS:
            f.write(f"\nconst uint64_t sp_ggml_grid_{name}[{kind.grid_shape[0] // 4}] = {{\n")
            codes = list(points(kind))
            words = [sum(code << 16 * k for k, code in enumerate(codes[i:i + 4])) for i in range(0, len(codes), 4)]
            for i in range(0, len(words), 4):
                f.write("    " + " ".join(f"0x{word:016x}," for word in words[i:i + 4]) + "\n")
            f.write("};\n")

main()

#!/usr/bin/env python3
"""Write the expected values of test_codec and test_microscale: python3 codec_vectors.py FOLDER

Everything is computed independently, from the formulas in spectool-pack(5), quantize/types/q8.h and
quantize/types/microscale_fit.h, in numpy's float32 and Python's integers. One case per line, numbers in hex:

  casts.txt      f32 bits, f16 bits, bf16 bits
  f64.txt        f64 bits, f32 bits
  q8.txt         32 weights (f32 bits), scale (bf16 bits), 32 codes + 128
  microscale_decode.txt
                 bits of a code, row, row scale (f32 bits), 104 words of a block (zeros behind it), the row's 32 weights
  q4_fit.txt     16 whole weights v (16-bit two's complement), scale byte, 16 nibbles

Fixed seed; needs numpy."""
import os
import struct
import sys
import warnings
from fractions import Fraction

import numpy as np

F = np.float32
CODEBOOKS = [
    [-64, -46, -37, -29, -22, -16, -10, -4, 1, 6, 12, 18, 24, 31, 39, 48],
    [-48, -39, -31, -24, -18, -12, -6, -1, 4, 10, 16, 22, 29, 37, 46, 64],
    [-57, -48, -38, -29, -22, -16, -11, -6, -1, 3, 7, 12, 17, 23, 30, 42],
    [-42, -30, -23, -17, -12, -7, -3, 1, 6, 11, 16, 22, 29, 38, 48, 57],
]
Q2 = [[-50, -23, -2, 24], [-39, -6, 12, 36], [-48, -11, 8, 31], [-53, -18, 4, 27], [-44, -19, 3, 33], [-56, -26, -4, 15],
      [-60, -15, 1, 17], [-40, -15, 10, 33]]
Q3 = [[-51, -35, -22, -9, 2, 14, 26, 40], [-48, -33, -18, -7, 3, 13, 25, 48], [-59, -28, -15, -5, 4, 13, 25, 38],
      [-59, -37, -21, -10, -1, 9, 20, 33]]
Q5 = [1, 3, 4, 6, 8, 10, 12, 14, 16, 18, 21, 24, 26, 29, 33, 42]
SHARES = [F(r) for r in (1.015, 0.835, 1.068, 0.964)]


def bits(f):
    return struct.unpack("<I", struct.pack("<f", f))[0]


def floats(values):
    return " ".join(f"{bits(v):08x}" for v in values)


def bf16(f):
    """Nearest bf16, ties to even: exact comparison with the neighbours."""
    b = bits(f)
    if b & 0x7fffffff > 0x7f800000:
        return b >> 16 | 0x40
    below = b >> 16
    if b & 0x7fffffff == 0x7f800000:
        return below

    def value(h):                                   # infinity counts as the next power of two
        m = h & 0x7fff
        return Fraction(2) ** 128 if m == 0x7f80 else Fraction(*struct.unpack(
            "<f", struct.pack("<I", m << 16))[0].as_integer_ratio())

    x = abs(Fraction(*float(f).as_integer_ratio()))
    down, up = x - value(below), value(below + 1) - x
    return below + (up < down or (up == down and below & 1))


def of_bf16(h):
    return F(struct.unpack("<f", struct.pack("<I", h << 16))[0])


def of_bits(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def casts(rng):
    edge = [0, 1, 0x7fffff, 0x800000, 0x33000000, 0x33000001, 0x33800000, 0x33c00000, 0x387fc000, 0x387fe000,
            0x387fffff, 0x38800000, 0x38801000, 0x38803000, 0x3f800000, 0x3f801000, 0x3f802000, 0x3f803000,
            0x3f808000, 0x3f818000, 0x477fe000, 0x477fefff, 0x477ff000, 0x47800000, 0x7f7f7fff, 0x7f7f8000,
            0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7fc12345, 0x7f800001 | 0x400000]
    random = [int(b) for b in rng.integers(0, 1 << 32, 200)]
    near_half = [int(e) << 23 | int(m) for e, m in zip(rng.integers(100, 145, 200), rng.integers(0, 1 << 23, 200))]
    ties = [int(e) << 23 | int(m) << 13 | 1 << 12 for e, m in zip(rng.integers(112, 143, 60), rng.integers(0, 1024, 60))]
    for b in [s | e for e in edge for s in (0, 1 << 31)] + random + near_half + ties:
        f = of_bits(b)
        if b & 0x7fffffff > 0x7f800000:
            b |= 0x400000                                               # tests compare quiet NaNs
            half = (b >> 16 & 0x8000) | 0x7c00 | (b >> 13 & 0x3ff)
        else:
            half = int(np.array(f, dtype=F).astype(np.float16).view(np.uint16))
        yield f"{b:08x} {half:04x} {bf16(of_bits(b)):04x}"


def doubles(rng):
    edge = [0.0, 1.0, 1 + 2.0 ** -24, 1 + 3 * 2.0 ** -24, 1 + 2.0 ** -24 + 2.0 ** -50, 2.0 ** -149, 2.0 ** -150, 2.0 ** -150 * 1.5,
            3.4028235677973366e38, 3.4028235677973362e38, 1e300, float("inf")]
    random = [float(m) * 2.0 ** int(e) for m, e in zip(rng.standard_normal(50), rng.integers(-140, 120, 50))]
    for d in edge + [-e for e in edge] + random:
        yield f"{struct.unpack('<Q', struct.pack('<d', d))[0]:016x} {bits(np.float64(d).astype(F)):08x}"


def q8(rng):
    cases = [np.zeros(32, F), np.full(32, -1, F), np.linspace(-1, 1, 32).astype(F), np.array([127] + [0.5] * 31, F),
             np.array([1.5e-38] + [1e-39] * 31, F), np.array([2.0e-44] * 32, F), np.array([3.4e38] + [-3.4e38] * 31, F)]
    cases += [(rng.standard_normal(32) * 10.0 ** rng.integers(-6, 6)).astype(F) for _ in range(60)]
    for x in cases:
        half = bf16(np.abs(x).max() / F(127))
        if of_bf16(half) < F(2.0 ** -126):
            half, codes = 0, np.zeros(32, int)
        else:
            if of_bf16(half) > F(3.4028234663852886e38) / F(127):
                half -= 1
            codes = np.clip(np.rint(x * (F(1) / of_bf16(half))), -127, 127).astype(int)
        yield f"{floats(x)} {half:04x} " + " ".join(f"{c + 128:02x}" for c in codes)


def mirrored(books):
    return [book for b in books for book in (b, [-e for e in reversed(b)])]


def codebooks(n_bits):
    """The codebooks of a type, by the scale byte modulo their number."""
    if n_bits == 5:
        return [[e + o for e in [-e for e in reversed(Q5)] + Q5] for o in (1, -1, 3, -3, 5, -5, 7, -7)]
    if n_bits == 6:
        return [[e + o for e in range(-32, 32)] for o in (2, -1, 4, -3, 6, -5, 9, -8)]
    return CODEBOOKS if n_bits == 4 else mirrored(Q3 if n_bits == 3 else Q2)


def code_at(block, n_bits, r, k):
    """The code of row r, column k, from the planes of a block."""
    code, start, low = 0, 0, 0
    for width in {2: [2], 3: [2, 1], 4: [4], 5: [4, 1], 6: [4, 2]}[n_bits]:
        g = k // 4
        vector, shift = {4: (g // 4 * 2 + g % 2, g // 2 % 2 * 4), 2: (g // 4, g % 4 * 2), 1: (0, g)}[width]
        code |= (block[start + 64 * vector + 4 * r + k % 4] >> shift & (1 << width) - 1) << low
        start, low = start + 64 * width, low + width
    return code


def microscale_decode(rng):
    for n_bits in range(2, 7):
        books = codebooks(n_bits)
        for case in range(10):
            block, r = [int(b) for b in rng.integers(0, 256, 64 * n_bits + 32)], int(rng.integers(0, 16))
            scales = [64 * n_bits + 16 * h + r for h in (0, 1)]
            for h in (0, 1):                        # each codebook occurs; 0 and 255 as well
                block[scales[h]] = 255 * h if case == 8 else block[scales[h]] & 0xf0 | (2 * case + h) % 16
            scale, weights = F(rng.standard_normal() ** 2 * 10.0 ** rng.integers(-6, 1)), []
            for k in range(32):
                byte = block[scales[k // 16]]
                weights.append(scale * F(byte * books[byte % len(books)][code_at(block, n_bits, r, k)]))
            words = struct.unpack("<104I", bytes(block).ljust(416, b"\0"))
            yield f"{n_bits:x} {r:x} {bits(scale):08x} " + " ".join(f"{w:x}" for w in words) + " " + floats(weights)


def nearest(codebook, x):                           # to x / 2
    return sum(x > a + b for a, b in zip(codebook, codebook[1:]))


def fit(v):
    best, best_gain = 0, F(0)
    for t, codebook in enumerate(CODEBOOKS):
        guess = max(F(max(v)) * (F(1) / F(codebook[15])), F(min(v)) * (F(1) / F(codebook[0])))
        for share in SHARES:
            m = int(min(max((F(65536) / guess) * share, F(128)), F(32767)))
            c = [codebook[nearest(codebook, min(max((w * m + 16384) >> 15, -128), 127))] for w in v]
            p, q = sum(w * e for w, e in zip(v, c)), sum(e * e for e in c)
            n = int(np.rint((F(p) / F(q) - F(t)) * F(0.25)))
            b = 4 * min(max(n, 0 if t else 1), 63) + t
            gain = F(b) * (F(2) * F(p) - F(b) * F(q))
            if gain > best_gain:
                best, best_gain = b, gain
    codebook = CODEBOOKS[best & 3]
    return best, [sum(w > (best * (a + b)) >> 1 for a, b in zip(codebook, codebook[1:])) for w in v]


def q4_fit(rng):
    cases = [[0] * 16, [1] * 16, [-1] * 16, [16320] * 16, [-16320] * 16, [16320, -16320] * 8, [12495] + [0] * 15,
             [0] * 15 + [-12495], list(range(-8, 8)), [127 * 40] + [5] * 15]
    for size in (3, 30, 300, 2000, 6000):
        cases += [[int(w) for w in np.clip(np.rint(rng.standard_normal(16) * size), -16320, 16320)] for _ in range(16)]
    for v in cases:
        byte, nibbles = fit(v)
        yield " ".join(f"{w & 0xffff:04x}" for w in v) + f" {byte:02x} " + " ".join(f"{n:x}" for n in nibbles)


def main():
    warnings.simplefilter("ignore")                                     # overflow to infinity is intended
    folder = sys.argv[1]
    for name, cases in (("casts", casts), ("f64", doubles), ("q8", q8), ("microscale_decode", microscale_decode),
                        ("q4_fit", q4_fit)):
        with open(os.path.join(folder, name + ".txt"), "w", encoding="ascii") as out:
            for line in cases(np.random.default_rng(7)):
                out.write(line + "\n")


if __name__ == "__main__":
    main()

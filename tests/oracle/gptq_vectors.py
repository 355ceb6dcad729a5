#!/usr/bin/env python3
"""Write the expected values of test_gptq: python3 gptq_vectors.py FOLDER

Computed independently from quantize/gptq.h and microscale_fit.h: the decomposition by numpy's Cholesky
factor of the reversed matrix in float64, the encoder weight by weight in numpy's float32. Columns:
32, so one block of two groups, 768 sums or numbers (group 0: 32 x 16, group 1: 16 x 16). One case a
line, numbers in hex, floats as their f32 bits:

  gptq_solve.txt   768 sums, 768 numbers
  gptq_encode.txt  768 numbers, row scale, 32 weights, 2 scale bytes, 32 nibbles

Fixed seed; needs numpy."""
import os
import sys

import numpy as np

F = np.float32
COLS = 32
CODEBOOKS = [
    [-64, -46, -37, -29, -22, -16, -10, -4, 1, 6, 12, 18, 24, 31, 39, 48],
    [-48, -39, -31, -24, -18, -12, -6, -1, 4, 10, 16, 22, 29, 37, 46, 64],
    [-57, -48, -38, -29, -22, -16, -11, -6, -1, 3, 7, 12, 17, 23, 30, 42],
    [-42, -30, -23, -17, -12, -7, -3, 1, 6, 11, 16, 22, 29, 38, 48, 57],
]
SHARES = [F(r) for r in (1.015, 0.835, 1.068, 0.964)]


def hexes(values):
    return " ".join(f"{b:08x}" for b in np.asarray(values, F).ravel().view(np.uint32))


def packed(matrix):
    """Columns j of group g from the group's first on: its 16 numbers of (first + i, j), i fastest."""
    return np.concatenate([matrix[g:g + 16, g:].T.ravel() for g in range(0, COLS, 16)])


def inputs(rng, kind):
    x = rng.standard_normal((200, COLS))
    if kind == 0:                                   # correlated channels
        x = x @ (rng.standard_normal((COLS, COLS)) + 2 * rng.standard_normal((COLS, 1)))
    if kind == 1:                                   # magnitudes from 1e-3 to 1e3, one always zero
        x *= np.exp(rng.uniform(-7, 7, COLS))
        x[:, 5] = 0
    if kind == 2:                                   # fewer inputs than columns
        x = x[:20]
    return x.astype(F)


def decompose(h):
    """H = (I + M) D (I + M)', M strictly upper, by the Cholesky factor of H with reversed rows and columns."""
    lower = np.linalg.cholesky(h[::-1, ::-1])[::-1, ::-1]
    d = np.diag(lower)
    return lower / d, d ** 2


def numbers_of(sums):
    h = np.asarray(sums, F).astype(np.float64)
    mean = np.trace(h) / COLS
    h = h + np.diag(np.diag(h) * 0.3 + (mean * 1e-4 if mean > 0 else 1))
    m, d = decompose(h)
    m = np.triu(m, 1)
    for g in range(0, COLS, 16):
        own = d[g:g + 16]
        m[range(g, g + 16), range(g, g + 16)] = own / own.max()
    return m.astype(F)


def sums_of(x):
    h = x.astype(np.float64).T @ x.astype(np.float64)
    return h.astype(F)


def code_of(v, b, book):
    code = 0
    for i in range(15):
        code += bool(v > F(b) * F((book[i] + book[i + 1]) / 2))
    return code


def round_group(w, taken_on, numbers, byte):
    """Codes, errors and loss of one group with a scale byte; the sums in the order of the columns."""
    book, codes, errors, loss = CODEBOOKS[byte & 3], [], [], F(0)
    for j in range(16):
        v = F(w[j] + taken_on[j])
        for i in range(j):
            v = F(v + F(errors[i] * numbers[i, j]))
        code = code_of(v, byte, book)
        q = F(F(book[code]) * F(byte))
        miss = F(v - q)
        loss = F(loss + F(max(numbers[j, j], F(1e-6)) * F(miss * miss)))
        errors.append(F(w[j] - q))
        codes.append(code)
    return codes, errors, loss


def choose_byte(v, weights, t):
    book, best, best_gain = CODEBOOKS[t], 0, F(0)
    high, low = F(F(1) / F(book[15])), F(F(1) / F(book[0]))
    guess = max(F(max(v) * high), F(min(v) * low), F(0.5))
    for share in SHARES:
        size, p, q = F(guess / share), F(0), F(0)
        for x, weight in zip(v, weights):
            c = F(book[code_of(x, size, book)])
            p = F(p + F(weight * F(x * c)))
            q = F(q + F(weight * F(c * c)))
        n = min(max(F(F(F(p / q) - F(t)) * F(0.25)), F(0 if t else 1)), F(63))
        byte = 4 * int(np.rint(n)) + t
        gain = F(F(byte) * F(F(2) * p - F(F(byte) * q)))
        if gain > best_gain:
            best, best_gain = byte, gain
    return best


def encode(w, scale, numbers):
    inverse = F(F(1) / scale)
    w = [F(x * inverse) for x in w]
    taken_on, bytes_, codes = [F(0)] * COLS, [], []
    for g in range(0, COLS, 16):
        own = numbers[g:g + 16, g:g + 16]
        v = [F(a + b) for a, b in zip(w[g:g + 16], taken_on[g:g + 16])]
        weights = [max(own[i, i], F(1e-6)) for i in range(16)]
        best = (0, *round_group(w[g:g + 16], taken_on[g:g + 16], own, 0))
        for t in range(4):
            byte = choose_byte(v, weights, t)
            tried = (byte, *round_group(w[g:g + 16], taken_on[g:g + 16], own, byte))
            if tried[3] < best[3]:
                best = tried
        bytes_.append(best[0])
        codes += best[1]
        for j in range(g + 16, COLS):
            for i in range(16):
                taken_on[j] = F(taken_on[j] + F(best[2][i] * numbers[g + i, j]))
    return bytes_, codes


def main(folder):
    rng = np.random.default_rng(20261122)
    with open(os.path.join(folder, "gptq_solve.txt"), "w") as out:
        for kind in range(4):
            sums = sums_of(inputs(rng, kind)) if kind < 3 else np.zeros((COLS, COLS), F)
            out.write(f"{hexes(packed(sums))} {hexes(packed(numbers_of(sums)))}\n")
    with open(os.path.join(folder, "gptq_encode.txt"), "w") as out:
        for case in range(12):
            numbers = numbers_of(sums_of(inputs(rng, case % 3)))
            w = rng.standard_t(5, COLS) * np.exp(rng.uniform(-5, 2))
            if case == 7:
                w[16:] = 0
            if case == 8:
                w[:16] *= 1e-4
            w = w.astype(F)
            scale = F(np.abs(w).max() / F(49 * 255))
            bytes_, codes = encode(w, scale, numbers)
            out.write(f"{hexes(packed(numbers))} {hexes([scale])} {hexes(w)} "
                      + " ".join(f"{n:x}" for n in bytes_ + codes) + "\n")


main(sys.argv[1])

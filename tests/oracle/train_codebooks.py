#!/usr/bin/env python3
"""Train the codebooks of q4 (quantize/microscale.c) and print them.

    python3 train_codebooks.py [ROWS]

Lloyd's algorithm on rows of 1024 weights, half of them Gaussian, half with the heavier tails of real
matrices (Student's t, 5 degrees of freedom; a Gaussian alone would gain 0.5 % on Gaussian rows and lose 1.5 %
on those of a real model): every half block of 16 takes the best of all 256
scale bytes (scale b, codebook b & 3) against the scales as they are stored, then every entry moves to the
least-squares value of the weights it stands for. Codebooks 1 and 3 are the mirror images of 0 and 2,
so each pair is fitted together. At the end entries are rounded to int8 and the error on fresh rows is
printed. Fixed seed; needs numpy; about a minute."""
import sys

import numpy as np

COLS, HALF, LARGEST, ROUNDS = 1024, 16, 97.0, 30


def codes(tables, blocks, byte):
    """Nearest entries of the byte's codebook for each weight: their numbers and the squared error."""
    table = tables[byte & 3]
    x = blocks / byte
    n = np.searchsorted((table[1:] + table[:-1]) / 2, x)
    return n, ((blocks - byte * table[n]) ** 2).sum(axis=1)


def best_bytes(tables, blocks):
    peak = np.abs(blocks).max(axis=1)
    error = np.full(len(blocks), np.inf)
    best = np.zeros(len(blocks), dtype=int)
    for byte in range(1, 256):
        near = np.flatnonzero((peak < 1.8 * 127 * byte) & (peak > 0.5 * 84 * byte))
        if not len(near):
            continue
        _, e = codes(tables, blocks[near], byte)
        better = e < error[near]
        best[near[better]] = byte
        error[near[better]] = e[better]
    return best, error


def fit(tables, blocks, best):
    number, weight = np.zeros((4, 16)), np.zeros((4, 16))
    for byte in np.unique(best):
        rows = blocks[best == byte]
        n, _ = codes(tables, rows, byte)
        number[byte & 3] += byte * np.bincount(n.ravel(), rows.ravel(), 16)
        weight[byte & 3] += float(byte) ** 2 * np.bincount(n.ravel(), minlength=16)
    new = tables.copy()
    for t in (0, 2):
        total = weight[t] + weight[t + 1][::-1]
        value = (number[t] - number[t + 1][::-1]) / np.maximum(total, 1e-9)
        new[t] = np.where(total > 0, value, tables[t])
        new[t + 1] = -new[t][::-1]
    return new


def blocks_of(w):
    w = w * LARGEST * 255 / np.abs(w).max(axis=1, keepdims=True)
    return w.reshape(-1, HALF)


def relative_rms(tables, blocks):
    return np.sqrt(best_bytes(tables, blocks)[1].sum() / (blocks ** 2).sum())


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 128
    rng = np.random.default_rng(20240607)
    blocks = blocks_of(np.concatenate([rng.standard_normal((rows // 2, COLS)),
                                       rng.standard_t(5, (rows // 2, COLS))]))
    half = np.array([8, 19, 31, 45, 59, 77, 104, 127.0])                 # any plausible start
    tables = np.empty((4, 16))
    for t, (below, above) in enumerate([(1, 0.86), (0.86, 1), (0.77, 0.66), (0.66, 0.77)]):
        tables[t] = np.concatenate([-below * half[::-1] - 2.5 * (-1) ** t, above * half - 2.5 * (-1) ** t])
    for t in (0, 2):
        tables[t + 1] = -tables[t][::-1]
    for _ in range(ROUNDS):
        best, error = best_bytes(tables, blocks)
        print(f"{np.sqrt(error.sum() / (blocks ** 2).sum()):.5f}", file=sys.stderr)
        tables = fit(tables, blocks, best)
        tables *= 127 / np.abs(tables).max()
    final = np.rint(tables).astype(int)
    for t in range(4):
        print("    " + ", ".join(str(v) for v in final[t]) + ",")
    fresh = blocks_of(rng.standard_normal((64, COLS)))
    print(f"relative rms error on fresh Gaussian rows: {relative_rms(final.astype(float), fresh):.5f}")


if __name__ == "__main__":
    main()

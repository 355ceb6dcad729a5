#!/usr/bin/env python3
"""Write the expected values of test_gptq: python3 gptq_vectors.py FOLDER

Computed independently from quantize/types/gptq.h and kernels_gptq.h: the decomposition by numpy's Cholesky
factor of the reversed matrix in float64, the encoder weight by weight in numpy's float32. Columns:
32, so one block of two groups, 770 sums or numbers (the order: 2, group 0: 32 x 16, group 1: 16 x 16). One case a
line, numbers in hex, floats as their f32 bits:

  gptq_solve.txt         770 sums, 770 numbers
  gptq_encode.txt        bits of a code, 770 numbers, row scale, 32 weights, 2 scale bytes, 32 codes
  microscale_encode.txt  the same without numbers: what the encoder writes without a calibration

Fixed seed; needs numpy."""
import os
import sys

import numpy as np

F = np.float32
COLS = 32


def mirrored(*books):
    return [book for b in books for book in (b, [-e for e in reversed(b)])]


class Type:
    """A type: its codebooks, the sizes tried, what the largest weight of a row is scaled to, and how the entry
    nearest to a weight is found: "table", "shifted" (one symmetric list of entries) or "uniform"."""

    def __init__(self, books, ratios, largest, kind="table", offsets=None):
        self.kind, self.offsets, self.largest = kind, offsets, largest
        self.books = [[e + o for e in books] for o in offsets] if offsets else books
        self.ratios = [F(r) for r in ratios]
        self.upper = [F(e) for e in books[len(books) // 2:]] if offsets else None


UPPER5 = [1, 3, 4, 6, 8, 10, 12, 14, 16, 18, 21, 24, 26, 29, 33, 42]
TYPES = {
    2: Type(mirrored([-50, -23, -2, 24], [-39, -6, 12, 36], [-48, -11, 8, 31], [-53, -18, 4, 27], [-44, -19, 3, 33],
                     [-56, -26, -4, 15], [-60, -15, 1, 17], [-40, -15, 10, 33]), (1.27, 1.57, 1.06, 1.39), 49),
    3: Type(mirrored([-51, -35, -22, -9, 2, 14, 26, 40], [-48, -33, -18, -7, 3, 13, 25, 48],
                     [-59, -28, -15, -5, 4, 13, 25, 38], [-59, -37, -21, -10, -1, 9, 20, 33]),
            (1.06, 0.97, 1.18, 0.67), 49),
    4: Type(mirrored([-64, -46, -37, -29, -22, -16, -10, -4, 1, 6, 12, 18, 24, 31, 39, 48],
                     [-57, -48, -38, -29, -22, -16, -11, -6, -1, 3, 7, 12, 17, 23, 30, 42]),
            (1.015, 0.835, 1.068, 0.964), 49),
    5: Type([-e for e in reversed(UPPER5)] + UPPER5, (1.0, 0.79, 0.73, 0.67, 0.82, 1.03, 0.61), 34, "shifted",
            (1, -1, 3, -3, 5, -5, 7, -7)),
    6: Type(list(range(-32, 32)), (0.97, 1.0, 0.91, 0.85, 0.94), 29, "uniform", (2, -1, 4, -3, 6, -5, 9, -8)),
}


def hexes(values):
    return " ".join(f"{b:08x}" for b in np.asarray(values, F).ravel().view(np.uint32))


def packed(order, matrix):
    """The order; columns j of group g from the group's first on: its 16 numbers of (first + i, j), i fastest."""
    return np.concatenate([order] + [matrix[g:g + 16, g:].T.ravel() for g in range(0, COLS, 16)])


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


def columns_of(order):
    return (np.asarray(order, int)[:, None] * 16 + np.arange(16)).ravel()


def numbers_of(sums):
    """The order of the groups, those with the largest inputs first, and the factors in this order."""
    h = np.asarray(sums, F).astype(np.float64)
    order = np.argsort(-np.diag(h).reshape(-1, 16).sum(1), kind="stable")
    columns = columns_of(order)
    h = h[np.ix_(columns, columns)]
    mean = np.trace(h) / COLS
    h = h + np.diag(np.diag(h) * 0.3 + (mean * 1e-4 if mean > 0 else 1))
    m, d = decompose(h)
    m = np.triu(m, 1)
    for g in range(0, COLS, 16):
        own = d[g:g + 16]
        m[range(g, g + 16), range(g, g + 16)] = own / own.max()
    return order, m.astype(F)


def sums_of(x):
    h = x.astype(np.float64).T @ x.astype(np.float64)
    return h.astype(F)


def nearest(kind, t, v, size):
    """Code and entry nearest to v / size in codebook t."""
    book = kind.books[t]
    if kind.kind == "table":
        code = sum(bool(v > F(size) * F((a + b) / 2)) for a, b in zip(book, book[1:]))
        return code, F(book[code])
    n, offset = len(book), F(kind.offsets[t])
    x = F(v * (F(F(1) / F(size)) if size > 0 else F(0)))
    if kind.kind == "uniform":
        code = int(np.rint(max(min(F(x + F(n // 2 - offset)), F(n - 1)), F(0))))
        return code, F(book[code])
    x = F(x - offset)
    code = sum(bool(abs(x) > F((a + b) / 2)) for a, b in zip(kind.upper, kind.upper[1:])) + n // 2
    if not x > 0:
        code = n - 1 - code
    return code, F(book[code])


def round_group(kind, w, taken_on, numbers, byte):
    """Codes, errors and loss of one group with a scale byte; the sums in the order of the columns."""
    codes, errors, loss = [], [], F(0)
    for j in range(16):
        v = F(w[j] + taken_on[j])
        for i in range(j if numbers is not None else 0):
            v = F(v + F(errors[i] * numbers[i, j]))
        code, entry = nearest(kind, byte % len(kind.books), v, byte)
        q = F(entry * F(byte))
        miss = F(v - q)
        loss = F(loss + F(weight_of(numbers, j) * F(miss * miss)))
        errors.append(F(w[j] - q))
        codes.append(code)
    return codes, errors, loss


def weight_of(numbers, j):
    return F(1) if numbers is None else max(numbers[j, j], F(1e-6))


def byte_near(kind, b, t):
    n_books = len(kind.books)
    n = F(F(b - F(t)) * F(F(1) / F(n_books)))
    least, most = F(0 if t else 1), F(256 // n_books - 1)
    n = n if n > least else least                   # a NaN becomes the least
    return n_books * int(np.rint(n if n < most else most)) + t


def choose_byte(kind, v, numbers, t):
    book, best, best_gain = kind.books[t], 0, F(0)
    high, low = F(F(1) / F(book[-1])), F(F(1) / F(book[0]))
    estimate = max(F(max(v) * high), F(min(v) * low), F(0.5))
    for ratio in kind.ratios:
        size, p, q = F(estimate / ratio), F(0), F(0)
        if kind.kind == "uniform":
            size = byte_near(kind, size, t)
        for j, x in enumerate(v):
            _, c = nearest(kind, t, x, size)
            p = F(p + F(weight_of(numbers, j) * F(x * c)))
            q = F(q + F(weight_of(numbers, j) * F(c * c)))
        byte = size if kind.kind == "uniform" else byte_near(kind, F(p / q), t)
        gain = F(F(byte) * F(F(F(2) * p) - F(F(byte) * q)))
        if gain > best_gain:
            best, best_gain = byte, gain
    return best


def encode(kind, w, scale, numbers):
    """Scale bytes and codes; numbers: the order and the factors, None without a calibration."""
    inverse = F(F(1) / scale)
    order, numbers = numbers or (range(COLS // 16), None)
    w = [F(w[k] * inverse) for k in columns_of(order)]
    taken_on, bytes_, codes = [F(0)] * COLS, [], []
    for g in range(0, COLS, 16):
        own = None if numbers is None else numbers[g:g + 16, g:g + 16]
        v = [F(a + b) for a, b in zip(w[g:g + 16], taken_on[g:g + 16])]
        best = (0, *round_group(kind, w[g:g + 16], taken_on[g:g + 16], own, 0))
        for t in range(len(kind.books)):
            byte = choose_byte(kind, v, own, t)
            tried = (byte, *round_group(kind, w[g:g + 16], taken_on[g:g + 16], own, byte))
            if tried[3] < best[3]:
                best = tried
        bytes_.append(best[0])
        codes += best[1]
        for j in range(g + 16, COLS if numbers is not None else 0):
            for i in range(16):
                taken_on[j] = F(taken_on[j] + F(best[2][i] * numbers[g + i, j]))
    place = np.argsort(order)
    return [bytes_[g] for g in place], [codes[k] for k in columns_of(place)]


def write_case(out, rng, n_bits, case, numbers):
    kind = TYPES[n_bits]
    w = rng.standard_t(5, COLS) * np.exp(rng.uniform(-5, 2))
    if case == 7:
        w[16:] = 0
    if case == 8:
        w[:16] *= 1e-4
    w = w.astype(F)
    scale = F(np.abs(w).max() / F(kind.largest * 255))
    bytes_, codes = encode(kind, w, scale, numbers)
    middle = "" if numbers is None else hexes(packed(*numbers)) + " "
    out.write(f"{n_bits} {middle}{hexes([scale])} {hexes(w)} " + " ".join(f"{n:x}" for n in bytes_ + codes) + "\n")


def main(folder):
    rng = np.random.default_rng(20261122)
    with open(os.path.join(folder, "gptq_solve.txt"), "w") as out:
        for kind in range(4):
            sums = sums_of(inputs(rng, kind)) if kind < 3 else np.zeros((COLS, COLS), F)
            out.write(f"{hexes(packed([0, 0], sums))} {hexes(packed(*numbers_of(sums)))}\n")
    with open(os.path.join(folder, "gptq_encode.txt"), "w") as out:
        for n_bits, n_cases in ((4, 12), (2, 3), (3, 3), (5, 3), (6, 3)):
            for case in range(n_cases):
                write_case(out, rng, n_bits, case, numbers_of(sums_of(inputs(rng, case % 3))))
    with open(os.path.join(folder, "microscale_encode.txt"), "w") as out:
        for n_bits in TYPES:
            for case in range(10):
                write_case(out, rng, n_bits, case, None)


if __name__ == "__main__":
    np.seterr(invalid="ignore")                     # 0 / 0 where all entries are 0
    main(sys.argv[1])

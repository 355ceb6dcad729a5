#!/usr/bin/env python3
"""Train codebooks for q2 to q6 as those of quantize/types/microscale.c were: python3 train_codebooks.py BITS [SEED]

Rows of 1024 weights, half of them Gaussian, half with the heavier tails of real matrices (Student's t, 5 degrees of
freedom), are scaled as the encoder scales them. Two steps alternate: each half block of 16 weights takes the scale byte
with the least squared error, tried one after another; then each entry (q5: also each offset; q6: offsets alone) becomes
the least-squares solution for the weights that it stands for. Odd codebooks mirror even ones. At the end numbers are
rounded to integers, and q4's are annealed. Different seeds end in different places whose errors are within 3 % of each
other; the tables of microscale.c come from longer runs over several seeds, with more rows. Prints the relative rms errors on the training
rows, of the trained codebooks and of the tables of microscale.c as gptq_vectors.py has them, and the codebooks. Less
than a minute (q4: some 20); needs numpy."""
import sys

import numpy as np

from gptq_vectors import TYPES

ROWS, COLS, ITERATIONS = 16, 1024, 24


def rows_of(rng, largest):
    w = np.concatenate([rng.standard_normal((ROWS // 2, COLS)), rng.standard_t(5, (ROWS // 2, COLS))])
    w *= largest * 255 / np.abs(w).max(axis=1, keepdims=True)
    return w.reshape(-1, 16)


def assign(w, books):
    """The best scale byte of each half block, the codes with it, and the squared error."""
    error, bytes_ = (w ** 2).sum(axis=1), np.zeros(len(w), int)
    codes = np.zeros(w.shape, int)
    for b in range(1, 256):
        book = books[b % len(books)]
        code = np.searchsorted((book[1:] + book[:-1]) / 2 * b, w)
        tried = ((w - book[code] * b) ** 2).sum(axis=1)
        better = tried < error
        error[better], bytes_[better], codes[better] = tried[better], b, code[better]
    return bytes_, codes, error.sum()


def mean_of(target, weight, index, n):
    """Per index the number x that minimizes sum(weight^2 * (target / weight - x)^2), and whether it occurs."""
    top = np.bincount(index.ravel(), (target * weight).ravel(), n)
    bottom = np.bincount(index.ravel(), (weight ** 2).ravel(), n)
    return np.divide(top, bottom, np.zeros(n), where=bottom > 0), bottom > 0


def mirrored_pairs(even):
    return np.stack([book for e in even for book in (e, -e[::-1])])


def train_tables(w, rng, n_bits, n_books):
    n = 1 << n_bits
    even = np.sort(rng.uniform(-1, 1, (n_books // 2, n)) * 0.25 + np.linspace(-1, 0.8, n), axis=1) * 50
    for _ in range(ITERATIONS):
        b, code, _ = assign(w, mirrored_pairs(even))
        odd = (b % 2 == 1)[:, None]
        index = (b % n_books // 2)[:, None] * n + np.where(odd, n - 1 - code, code)
        x, occurs = mean_of(np.where(odd, -w, w), np.broadcast_to(b[:, None], w.shape), index, n_books // 2 * n)
        even = np.sort(np.where(occurs, x, even.ravel()).reshape(-1, n).clip(-64, 64), axis=1)
    even = np.rint(even)
    even[even == 0] = 1                             # the encoder divides by sums of squared entries
    return mirrored_pairs(even)


def anneal(w, rng, books, steps=7000, hot=1e-3, cold=1e-5):
    """Moves an entry of an even codebook by one, or two, or a run of them, and keeps what lessens the error; at first
    some of what does not. Entries stay ascending, within -64..64, and none is 0."""
    now = best = books[::2].copy()
    cost = least = assign(w, books)[2]
    for n in range(steps):
        tried = now.copy()
        book, (i, j), by = tried[rng.integers(len(tried))], rng.integers(16, size=2), rng.choice([-1, 1])
        kind = rng.random()
        if kind > 0.85:
            book[min(i, j):max(i, j) + 1] += by
        else:
            book[i] += by
            book[j] += rng.choice([-1, 1]) if kind > 0.6 else 0
        if (book == 0).any() or abs(book).max() > 64 or (np.diff(book) <= 0).any():
            continue
        new = assign(w, mirrored_pairs(tried))[2]
        if new > cost and rng.random() > np.exp((cost - new) / (cost * hot * (cold / hot) ** (n / steps))):
            continue
        now, cost = tried, new
        if cost < least:
            best, least = now, cost
    return mirrored_pairs(best)


def train_shifted(w, n_bits, n_books):
    n = 1 << n_bits
    y = 2 * (np.arange(n) + 0.5) / n - 1
    entries = np.arange(n) - n / 2 if n_bits == 6 else 38 * (0.7 * y + 0.3 * y ** 3)
    offsets = np.array([s * (i + 0.5) * (2.0 if n_bits == 6 else 1.8) for i in range(n_books // 2) for s in (1, -1)])
    for turn in range(ITERATIONS):
        b, code, _ = assign(w, entries + offsets[:, None])
        weight = np.broadcast_to(b[:, None], w.shape)
        which = np.broadcast_to((b % n_books)[:, None], w.shape)
        if n_bits == 6 or turn % 2:
            x, occurs = mean_of(w - weight * entries[code], weight, which, n_books)
            offsets = np.where(occurs, x, offsets)
        else:
            x, occurs = mean_of(w - weight * offsets[which], weight, code, n)
            entries = np.where(occurs, x, entries)
            entries = (entries - entries[::-1]) / 2
    return np.rint(entries) + np.rint(offsets)[:, None]


def main(n_bits, seed):
    kind = TYPES[n_bits]
    rng = np.random.default_rng(seed)
    w = rows_of(rng, kind.largest)
    shipped = np.array(kind.books, float)
    books = train_shifted(w, n_bits, len(shipped)) if kind.offsets else train_tables(w, rng, n_bits, len(shipped))
    if n_bits == 4:
        books = anneal(w, rng, books)
    for name, tables in (("trained", books), ("microscale.c", shipped)):
        print(f"{name}: {np.sqrt(assign(w, tables)[2] / (w ** 2).sum()):.5f}")
    print("\n".join(" ".join(f"{e:.0f}" for e in book) for book in books))


main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)

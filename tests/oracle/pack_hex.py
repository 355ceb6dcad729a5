#!/usr/bin/env python3
"""Assembles testdata/pack/minimal.hex and checks its digests with an independent XXH3.

usage: pack_hex.py [OUT]     checks every digest of the file; OUT: writes the bytes there

The hash is written from the description in spectool-pack(5), not from a library, which shows
that the definition of the format is sufficient to read a packed file.
"""
import re
import struct
import sys
from pathlib import Path

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
M = (1 << 64) - 1
A1, A2, A3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
B1, B2, B3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
B4, B5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
C1, C2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def u32(b, i):
    return struct.unpack_from("<I", b, i)[0]


def u64(b, i):
    return struct.unpack_from("<Q", b, i)[0]


def rotate(x, n):
    return (x << n | x >> (64 - n)) & M


def fold(a, b):
    p = a * b
    return (p ^ p >> 64) & M


def end(h):
    h = (h ^ h >> 37) * C1 & M
    return h ^ h >> 32


def end_short(h):
    h = (h ^ h >> 33) * B2 & M
    h = (h ^ h >> 29) * B3 & M
    return h ^ h >> 32


def mix(b, i, s):
    return fold(u64(b, i) ^ u64(SECRET, s), u64(b, i + 8) ^ u64(SECRET, s + 8))


def short(b):
    n = len(b)
    if n == 0:
        return end_short(u64(SECRET, 56) ^ u64(SECRET, 64))
    if n <= 3:
        x = b[0] << 16 | b[n // 2] << 24 | b[n - 1] | n << 8
        return end_short(x ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    if n <= 8:
        h = (u32(b, n - 4) + (u32(b, 0) << 32)) ^ u64(SECRET, 8) ^ u64(SECRET, 16)
        h = (h ^ rotate(h, 49) ^ rotate(h, 24)) * C2 & M
        h = (h ^ (h >> 35) + n) * C2 & M
        return h ^ h >> 28
    low = u64(b, 0) ^ u64(SECRET, 24) ^ u64(SECRET, 32)
    high = u64(b, n - 8) ^ u64(SECRET, 40) ^ u64(SECRET, 48)
    return end(n + int.from_bytes(low.to_bytes(8, "little"), "big") + high + fold(low, high) & M)


def medium(b):
    n = len(b)
    h = n * B1
    if n <= 128:
        for i in range((n - 1) // 32 + 1):
            h += mix(b, 16 * i, 32 * i) + mix(b, n - 16 * (i + 1), 32 * i + 16)
        return end(h & M)
    for i in range(8):
        h += mix(b, 16 * i, 16 * i)
    h = end(h & M)
    for i in range(8, n // 16):
        h += mix(b, 16 * i, 16 * (i - 8) + 3)
    return end(h + mix(b, n - 16, 119) & M)


def accumulate(acc, b, i, s):
    for j in range(8):
        v = u64(b, i + 8 * j)
        key = v ^ u64(SECRET, s + 8 * j)
        acc[j ^ 1] = (acc[j ^ 1] + v) & M
        acc[j] = (acc[j] + (key & 0xFFFFFFFF) * (key >> 32)) & M


def long(b):
    n = len(b)
    acc = [A3, B1, B2, B3, B4, A2, B5, A1]
    for i in range((n - 1) // 64):
        accumulate(acc, b, 64 * i, 8 * (i % 16))
        if i % 16 == 15:
            for j in range(8):
                acc[j] = (acc[j] ^ acc[j] >> 47 ^ u64(SECRET, 128 + 8 * j)) * A1 & M
    accumulate(acc, b, n - 64, 121)
    h = n * B1
    for j in range(4):
        h += fold(acc[2 * j] ^ u64(SECRET, 11 + 16 * j), acc[2 * j + 1] ^ u64(SECRET, 19 + 16 * j))
    return end(h & M)


def xxh3(b):
    b = bytes(b)
    return short(b) if len(b) <= 16 else medium(b) if len(b) <= 240 else long(b)


def assemble(text):
    out = bytearray()
    for line in text.splitlines():
        for word in line.split("#")[0].split():
            if word[0] == "@":
                out += bytes(int(word[1:]) - len(out))
            elif re.fullmatch("[0-9A-F]{2}", word):
                out.append(int(word, 16))
            else:
                sys.exit(f"not a byte: {word}")
    return bytes(out)


def check(what, stated, content):
    if stated != xxh3(content):
        sys.exit(f"{what}: digest {stated:016x}, expected {xxh3(content):016x}")


def main():
    root = Path(__file__).resolve().parents[2]
    b = assemble((root / "testdata/pack/minimal.hex").read_text())
    at, n_tensors, n_sections = u64(b, 24), u32(b, 48), u32(b, 52)
    check("header", u64(b, 120), b[:120])
    check("directory", u64(b, 40), b[at:])
    for i in range(n_tensors):
        offset, size, digest = struct.unpack_from("<3Q", b, at + 64 * i + 40)
        check(f"tensor {i}", digest, b[offset:offset + size])
    for i in range(n_sections):
        offset, size, _, digest = struct.unpack_from("<4Q", b, at + 64 * n_tensors + 40 * i + 8)
        check(f"section {i}", digest, b[offset:offset + size])
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_bytes(b)
    print(f"{len(b)} bytes, {2 + n_tensors + n_sections} digests hold")


if __name__ == "__main__":
    main()

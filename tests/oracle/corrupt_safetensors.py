#!/usr/bin/env python3
"""Makes testdata/corrupt/safetensors: one small file per kind of error, and a few valid ones.

    corrupt_safetensors.py FOLDER           writes the files and FOLDER/cases.txt
    corrupt_safetensors.py FOLDER --check   also reads each file with the safetensors package

cases.txt has one line per file: name and expected outcome (ok or the error message), separated by a
tab. Files that the package accepts and spectool refuses are in STRICTER, with the reason; --check fails
on any other difference.
"""
import json
import os
import struct
import sys

# File name -> reason why spectool refuses a file that the package accepts.
STRICTER = {
    "duplicate-tensor": "the format's README forbids it; the package keeps the last",
    "duplicate-tensor-escaped": "the same key in other spelling",
    "name-empty": "nothing could name it in a message",
    "name-nul": "no C string",
    "name-too-long": "no checkpoint has such names",
    "rank-9": "limit of the reader",
    "entry-array": "an accident of the package's parser",
}


def raw(n, header, data=b""):
    return struct.pack("<Q", n) + header + data


def st(header, data=b""):
    """header: JSON text, bytes or an object."""
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"))
    if isinstance(header, str):
        header = header.encode()
    return raw(len(header), header, data)


def t(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def text(entry, name='"t"'):
    return "{%s:%s}" % (name, entry)


ONE = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
BOOM = "[" * 300 + "]" * 300

GOOD = {
    "rank-0": st({"t": t("F32", [], 0, 4)}, bytes(4)),
    "zero-size": st({"t": t("F32", [0, 3], 0, 0), "u": t("U8", [1], 0, 1)}, bytes(1)),
    "zero-size-then-huge": st({"t": t("F32", [0, 2**63, 4], 0, 0)}),
    "empty": bytes.fromhex("0800000000000000") + b"{}      ",
    "whitespace": st(" \n\t\r" + text(ONE) + " \n\t\r", bytes(1)),
    "unordered": st({"b": t("U8", [1], 2, 3), "a": t("U8", [2], 0, 2)}, bytes(3)),
    "unaligned": st({"t": t("F32", [1], 0, 4), "abc": t("F64", [1], 4, 12)}, bytes(12)),
    "metadata-empty": st({"__metadata__": {}, "t": t("U8", [1], 0, 1)}, bytes(1)),
    "metadata-null": st({"__metadata__": None, "t": t("U8", [1], 0, 1)}, bytes(1)),
    "metadata": st({"__metadata__": {"format": "pt"}, "t": t("U8", [1], 0, 1)}, bytes(1)),
    "escaped-name": st('{"\\u0074\\u00e9\\ud83d\\ude00":%s}' % ONE, bytes(1)),
    "extra-key": st('{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":{"a":[null]}}}', bytes(1)),
    "f4": st({"t": t("F4", [2, 3], 0, 3)}, bytes(3)),
    "f6": st({"t": t("F6_E2M3", [4], 0, 3)}, bytes(3)),
    "other-types": st({"d": t("F64", [1], 0, 8), "i": t("I64", [1], 8, 16), "o": t("BOOL", [1], 16, 17)},
                      bytes(17)),
}

BAD = {
    "file-empty": (b"", "0 bytes are too few for a safetensors file"),
    "file-7-bytes": (bytes(7), "7 bytes are too few for a safetensors file"),
    "length-0": (raw(0, b""), "header length is 0, expected 1..100000000"),
    "length-100000001": (raw(100000001, b"{}"), "header length is 100000001, expected 1..100000000"),
    "length-2-63": (raw(2**63, b"{}"), "header length is 9223372036854775808, expected 1..100000000"),
    "length-2-64-1": (raw(2**64 - 1, b"{}"), "header length is 18446744073709551615, expected 1..100000000"),
    "length-beyond-file": (raw(3, b"{}"), "header length is 3, but only 2 bytes follow"),
    "header-cut": (raw(20, text(ONE).encode()[:20]),
                   "header: not valid JSON at byte 19: unterminated string"),
    "utf8-ff": (st(b'{"t\xff":' + ONE.encode() + b"}", bytes(1)), "header: not valid JSON at byte 3: invalid UTF-8"),
    "utf8-overlong": (st(b'{"\xc0\x80":' + ONE.encode() + b"}", bytes(1)),
                      "header: not valid JSON at byte 2: invalid UTF-8"),
    "utf8-surrogate": (st(b'{"\xed\xa0\x80":' + ONE.encode() + b"}", bytes(1)),
                       "header: not valid JSON at byte 2: invalid UTF-8"),
    "text-after": (st(text(ONE) + "x", bytes(1)), "header: not valid JSON at byte 53: unexpected character"),
    "nul-padding": (st(text(ONE) + "\0\0", bytes(1)), "header: not valid JSON at byte 53: unexpected character"),
    "root-array": (st("[]"), "header is of kind array, expected an object"),
    "root-string": (st('"t"'), "header is of kind string, expected an object"),
    "root-number": (st("1"), "header is of kind integer, expected an object"),
    "root-null": (st("null"), "header is of kind null, expected an object"),
    "control-character": (st('{"a\nb":%s}' % ONE, bytes(1)),
                          "header: not valid JSON at byte 3: control character in a string"),
    "bad-escape": (st('{"a\\x":%s}' % ONE, bytes(1)), "header: not valid JSON at byte 4: invalid string sequence"),
    "lone-surrogate": (st('{"\\ud800":%s}' % ONE, bytes(1)), "header: not valid JSON at byte 2: unpaired surrogate"),
    "nesting-bomb": (st('{"t":%s}' % BOOM), "header: not valid JSON at byte 260: nested deeper than 256"),
    "duplicate-tensor": (st('{"t":%s,"t":%s}' % (ONE, ONE), bytes(1)),
                         'header: not valid JSON at byte 53: key "t" occurs twice'),
    "duplicate-tensor-escaped": (st('{"t":%s,"\\u0074":%s}' % (ONE, ONE), bytes(1)),
                                 'header: not valid JSON at byte 53: key "t" occurs twice'),
    "duplicate-key-in-entry": (st(text('{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}'), bytes(1)),
                               'header: not valid JSON at byte 19: key "dtype" occurs twice'),
    "metadata-twice": (st('{"__metadata__":{},"__metadata__":{},"t":%s}' % ONE, bytes(1)),
                       'header: not valid JSON at byte 19: key "__metadata__" occurs twice'),
    "metadata-array": (st('{"__metadata__":[],"t":%s}' % ONE, bytes(1)),
                       "__metadata__ is of kind array, expected an object"),
    "metadata-number": (st('{"__metadata__":{"n":1},"t":%s}' % ONE, bytes(1)),
                        "__metadata__: n is of kind integer, expected a string"),
    "no-dtype": (st(text('{"shape":[1],"data_offsets":[0,1]}'), bytes(1)), "tensor t: dtype is missing"),
    "no-shape": (st(text('{"dtype":"U8","data_offsets":[0,1]}'), bytes(1)), "tensor t: shape is missing"),
    "no-data-offsets": (st(text('{"dtype":"U8","shape":[1]}'), bytes(1)), "tensor t: data_offsets is missing"),
    "entry-array": (st(text('["U8",[1],[0,1]]'), bytes(1)), "tensor t: its entry is of kind array, expected an object"),
    "entry-null": (st(text("null")), "tensor t: its entry is of kind null, expected an object"),
    "name-empty": (st(text(ONE, '""'), bytes(1)), "a tensor's name is empty"),
    "name-nul": (st(text(ONE, '"a\\u0000b"'), bytes(1)), "header: not valid JSON at byte 1: key holding \\u0000"),
    "name-too-long": (st(text(ONE, '"%s"' % ("n" * 65537)), bytes(1)),
                      "tensor %s...: name of 65537 bytes, expected at most 65536" % ("n" * 200)),
    "dtype-unknown": (st({"t": t("F31", [1], 0, 1)}, bytes(1)), 'tensor t: dtype "F31" is unknown'),
    "dtype-lower-case": (st({"t": t("u8", [1], 0, 1)}, bytes(1)), 'tensor t: dtype "u8" is unknown'),
    "dtype-number": (st({"t": t(8, [1], 0, 1)}, bytes(1)), "tensor t: dtype is of kind integer, expected a string"),
    "shape-number": (st({"t": t("U8", 1, 0, 1)}, bytes(1)), "tensor t: shape is of kind integer, expected an array"),
    "shape-negative": (st({"t": t("U8", [-1], 0, 1)}, bytes(1)), "tensor t: shape[0] is no integer 0..2^64-1"),
    "shape-fraction": (st({"t": t("U8", [1.0], 0, 1)}, bytes(1)), "tensor t: shape[0] is no integer 0..2^64-1"),
    "shape-exponent": (st(text('{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}'), bytes(1)),
                       "tensor t: shape[0] is no integer 0..2^64-1"),
    "shape-string": (st({"t": t("U8", ["1"], 0, 1)}, bytes(1)), "tensor t: shape[0] is no integer 0..2^64-1"),
    "shape-2-64": (st({"t": t("U8", [0, 2**64], 0, 0)}), "tensor t: shape[1] is no integer 0..2^64-1"),
    "shape-overflow": (st({"t": t("U8", [2**63, 4, 0], 0, 0)}),
                       "tensor t: U8 [9223372036854775808, 4, 0] is no whole number of bytes below 2^61"),
    "bits-overflow": (st({"t": t("F32", [2**60], 0, 0)}),
                      "tensor t: F32 [1152921504606846976] is no whole number of bytes below 2^61"),
    "rank-9": (st({"t": t("U8", [1] * 9, 0, 1)}, bytes(1)),
               "tensor t: shape has 9 dimensions, at most 8 are supported"),
    "sub-byte": (st({"t": t("F4", [1, 3], 0, 2)}, bytes(2)),
                 "tensor t: F4 [1, 3] is no whole number of bytes below 2^61"),
    "offsets-0": (st(text('{"dtype":"U8","shape":[1],"data_offsets":[]}'), bytes(1)),
                  "tensor t: data_offsets has 0 elements, expected 2"),
    "offsets-1": (st(text('{"dtype":"U8","shape":[1],"data_offsets":[0]}'), bytes(1)),
                  "tensor t: data_offsets has 1 elements, expected 2"),
    "offsets-3": (st(text('{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}'), bytes(1)),
                  "tensor t: data_offsets has 3 elements, expected 2"),
    "offsets-negative": (st({"t": t("U8", [1], -1, 0)}, bytes(1)),
                         "tensor t: data_offsets are not two integers 0..2^64-1"),
    "offsets-fraction": (st({"t": t("U8", [1], 0, 1.0)}, bytes(1)),
                         "tensor t: data_offsets are not two integers 0..2^64-1"),
    "offsets-reversed": (st({"t": t("U8", [1], 1, 0)}, bytes(1)),
                         "tensor t: data_offsets [1, 0] end before they begin"),
    "end-beyond-buffer": (st({"t": t("U8", [2], 0, 2)}, bytes(1)),
                          "tensor t: ends at byte 2 of the data, but the file has only 1: truncated"),
    "end-2-64-1": (st({"t": t("U8", [2**60], 0, 2**60), "u": t("U8", [2**60], 2**60, 2**61)}, bytes(1)),
                   "tensor t: ends at byte 1152921504606846976 of the data, but the file has only 1: truncated"),
    "gap-at-start": (st({"t": t("U8", [1], 1, 2)}, bytes(2)),
                     "tensor t: begins at 1 of the data, expected 0, where the one before it ends: a gap"),
    "gap-in-the-middle": (st({"t": t("U8", [1], 0, 1), "u": t("U8", [1], 2, 3)}, bytes(3)),
                          "tensor u: begins at 2 of the data, expected 1, where the one before it ends: a gap"),
    "overlap": (st({"t": t("U8", [2], 0, 2), "u": t("U8", [2], 1, 3)}, bytes(3)),
                "tensor u: begins at 1 of the data, expected 2, where the one before it ends: an overlap"),
    "same-range": (st({"t": t("U8", [2], 0, 2), "u": t("I8", [2], 0, 2)}, bytes(2)),
                   "tensor u: begins at 0 of the data, expected 2, where the one before it ends: an overlap"),
    "wrong-size": (st({"t": t("F32", [1], 0, 3)}, bytes(3)), "tensor t: F32 [1] needs 4 bytes, data_offsets span 3"),
    "trailing-bytes": (st({"t": t("U8", [1], 0, 1)}, bytes(3)), "2 bytes follow the last tensor"),
    "one-byte-short": (st({"t": t("F32", [4], 0, 16)}, bytes(15)),
                       "tensor t: ends at byte 16 of the data, but the file has only 15: truncated"),
    "lfs-pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
                    "is a Git LFS pointer, not the tensors themselves; `git lfs pull` fetches them"),
}


def package_accepts(path):
    from safetensors import safe_open

    try:
        with safe_open(path, framework="np") as f:
            f.keys()
        return True
    except Exception:  # any exception is a refusal
        return False


def main():
    folder, check = sys.argv[1], "--check" in sys.argv[2:]
    cases = [(name, data, "ok") for name, data in GOOD.items()]
    cases += [(name, data, sentence) for name, (data, sentence) in BAD.items()]
    differences = 0
    with open(os.path.join(folder, "cases.txt"), "w") as out:
        for name, data, sentence in cases:
            path = os.path.join(folder, name + ".safetensors")
            with open(path, "wb") as f:
                f.write(data)
            out.write("%s\t%s\n" % (name, sentence))
            if check:
                accepted = package_accepts(path)
                if accepted != (sentence == "ok" or name in STRICTER):
                    differences += 1
                    print("%s: the package %s it" % (name, "accepts" if accepted else "refuses"))
    sys.exit(1 if differences else 0)


main()

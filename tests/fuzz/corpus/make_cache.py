#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the seed inputs of fuzz_cache_store: records of src/cache/store.h around the answers of the corpus of wire_answer. The files are committed; run
this again when the file's form changes (needs libxxhash)."""
import ctypes
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))


def record(msg, signature=1, left_s=200, age_s=50, variant=0):
    return struct.pack("<QqIHBB", signature, left_s, age_s, len(msg), variant, 0) + msg


xxhash = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
xxhash.restype, xxhash.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)


def whole_file(*blocks):
    head = struct.pack("<QQq", 0x6568636163776e01, 1, 1700000000)
    check = xxhash(head, len(head), 1)
    out = head + struct.pack("<Q", check)
    for records in (*blocks, b""):
        length = struct.pack("<Q", len(records))
        check = xxhash(records, len(records), xxhash(length, len(length), check))
        out += length + struct.pack("<Q", check) + records
    return out


answers = {}
for name in sorted(os.listdir(os.path.join(HERE, "wire_answer"))):
    with open(os.path.join(HERE, "wire_answer", name), "rb") as f:
        answers[name] = f.read()

os.makedirs(os.path.join(HERE, "cache_store"), exist_ok=True)
inputs = {"all": b"".join(record(m, 1 + i % 8, variant=i % 4) for i, m in enumerate(answers.values())),
          "stale": b"".join(record(m, left_s=-100 * i, age_s=300 * i) for i, m in enumerate(answers.values())),
          "two": record(answers["chain"]) + record(answers["nxdomain"], 3)}
inputs |= {name: record(m) for name, m in answers.items() if name in ("a", "chain", "https", "nodata", "rrsig")}
inputs["file"] = whole_file(record(answers["chain"]), record(answers["nxdomain"], 3) + record(answers["a"]))
for name, content in inputs.items():
    with open(os.path.join(HERE, "cache_store", name), "wb") as f:
        f.write(content)

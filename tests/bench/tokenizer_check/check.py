"""Ids of tokenizer_check against those of the `tokenizers` library, on random strings.

  python check.py --program tokenizer_check [--smollm2 DIR] [--count 10000] [--every-code-point]

Exits 0 when every id and every decoded text is equal. Code points are those that Unicode 14
assigns (Python 3.11's unicodedata has that version).
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer

import styles


def assigned():
    if unicodedata.unidata_version != "14.0.0":
        print(f"note: this Python has Unicode {unicodedata.unidata_version}, not 14.0.0")
    return [chr(c) for c in range(0x110000)
            if not 0xd800 <= c < 0xe000 and unicodedata.category(chr(c)) != "Cn"]


def random_strings(count, seed, characters, tokens):
    """A third uniform over all code points, a third text-like, a third both with added tokens between."""
    rng = random.Random(seed)
    common = list("etaoin shrdlu  ETA'sdmtlrev.,!?-0123456789\n\r\t\u00a0é") + ["'ll", "'RE", "\r\n", "  ", "ſ", "e\u0301"]
    marks = [c for c in characters if unicodedata.combining(c)]
    out = []
    for i in range(count):
        parts = []
        for _ in range(rng.randint(0, 40)):
            kind = rng.random()
            if i % 3 == 0 or kind < 0.2:
                parts.append(rng.choice(characters))
            elif kind < 0.9:
                parts.append(rng.choice(common))
            elif kind < 0.95 or not tokens:
                parts.append(rng.choice(marks))
            elif i % 3 == 2:
                parts.append(rng.choice(tokens))
        out.append("".join(parts))
    return out


def every_code_point(characters):
    for c in characters:
        yield from (c, f"a{c}", f" {c}", f"1{c}1", f"{c}\n{c}", f"e{c}\u0301")


def run(program, path, texts):
    request = b"".join(struct.pack("<I", len(b)) + b for b in (t.encode() for t in texts))
    data = subprocess.run([program, path], input=request, stdout=subprocess.PIPE, check=True).stdout
    at = 0

    def number():
        nonlocal at
        at += 4
        return struct.unpack_from("<I", data, at - 4)[0]

    def take(size):
        nonlocal at
        at += size
        return data[at - size:at]

    for _ in texts:
        if number() == 0:
            yield None, take(number()).decode()
        else:
            count = number()
            ids = list(struct.unpack(f"<{count}i", take(4 * count)))
            yield ids, take(number()).decode()


def compare(program, name, path, texts):
    reference = Tokenizer.from_file(path)
    wrong = 0
    for text, (ids, got_text) in zip(texts, run(program, path, texts)):
        encoding = styles.encode(reference, text)
        expected, expected_text = None, got_text
        if encoding is not None:
            expected, expected_text = encoding.ids, reference.decode(encoding.ids)
        if ids != expected or got_text != expected_text:
            wrong += 1
            if wrong <= 3:
                print(f"  {name}: {text!r}\n    expected {expected} {expected_text!r}\n    got      {ids} {got_text!r}")
    print(f"{name}: {len(texts) - wrong} of {len(texts)} equal", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--smollm2", default="")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every-code-point", action="store_true")
    args = parser.parse_args()
    characters = assigned()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, make in styles.COMMITTED.items():
            files.append((name, os.path.join(folder, name + ".json"), args.count))
            make().save(files[-1][1])
        for i, (name, t) in enumerate(styles.variants()):
            files.append((name, os.path.join(folder, f"variant{i}.json"), args.count // 20))
            t.save(files[-1][1])
        smollm2 = os.path.join(args.smollm2, "tokenizer.json")
        if os.path.exists(smollm2):
            files.append(("SmolLM2", smollm2, args.count))
        else:
            print(f"note: no {smollm2}; SmolLM2's own file is not compared (set GDF_SMOLLM2)")
        for name, path, count in files:
            with open(path, encoding="utf-8") as f:
                tokens = [t["content"] for t in json.load(f)["added_tokens"]]
            texts = styles.SAMPLES + random_strings(count, args.seed, characters, tokens)
            if args.every_code_point and count == args.count:
                texts += every_code_point(characters)
            wrong += compare(args.program, name, path, texts)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

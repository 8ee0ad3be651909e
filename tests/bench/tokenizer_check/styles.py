"""Small tokenizer.json files in the style of known models, made with the `tokenizers` library.

  python styles.py DIR     writes DIR/NAME.json for every style and DIR/expected.json, the golden
                           ids and decoded texts that tests/unit/data reads
"""
import json
import os
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

TEXT = """The quick brown fox jumps over the lazy dog; it's what they've done since 1887, they'll say.
We're here, I'm there, you'd know: "one, two, three". 12345 + 67890 = 80235, 3.14159 and 2,718.
    def main(argc, argv):
        for i in range(10):\n\n\t\tprint('hello', i)   # a comment
Der schnelle braune Fuchs springt über den faulen Hund. Le cœur déçu mais l'âme plutôt naïve.
Съешь ещё этих мягких французских булок, да выпей чаю. Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.
敏捷的棕色狐狸跳过了懒狗。いろはにほへと ちりぬるを。키스의 고유조건은 입술끼리 만나야 하고.
نص حكيم له سر قاطع وذو شأن عظيم. דג סקרן שט בים מאוכזב. ऋषियों को सताने वाले दुष्ट राक्षसों.
👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 e\u0301 \u00e9 \ufb01 \u212b ½ ² Ⅷ ① ١٢٣
"""

SAMPLES = [
    "", " ", "  ", "\n", "Hello world", " Hello  world ", "it's IT'S we'LL I'm", "x = 12345678;",
    "a\n\n  b\r\n\r\n c\t\td   ", "naïve café e\u0301", "日本語 と 中文", "👩‍👩‍👧‍👦🇩🇪", "<|end|>", "a<|end|> b",
    "a <|end|>\n\nb", "say <|left|> and <|right|> now", "word sword words word", "  <|both|>  x",
    "<|end|><|end|>", "<|en", "\u0301\u0300x\u0323", "ﬁ ½ Ⅷ Å", "'ſ 's", "\u180e a\u00a0b\u2003c", "1٢3½",
    "\u1e69\u0073\u0323\u0307", "\x00\x01\x7f", "aaaaaaaaaaaaaaaaaaaa", "\uac00\u1100\u1161",
]


def train(normalizer, pre_tokenizer, special, **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        t.normalizer = normalizer
    if pre_tokenizer is not None:
        t.pre_tokenizer = pre_tokenizer
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=480, show_progress=False, special_tokens=special, min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def begin_with(t, token):
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token} $B:1",
                                      special_tokens=[(token, t.token_to_id(token))])])


def gpt2():
    t = train(None, byte_level(prefix=False, regex=True), ["<|endoftext|>"])
    t.add_special_tokens(["<|end|>"])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def llama3():
    t = train(None, pre_tokenizers.Sequence([split(LLAMA3), byte_level()]), [], ignore_merges=True)
    t.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|end|>"])
    begin_with(t, "<|begin_of_text|>")
    return t


def qwen():
    t = train(normalizers.NFC(), pre_tokenizers.Sequence([split(QWEN), byte_level()]), [])
    t.add_special_tokens(["<|endoftext|>", "<|end|>"])
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("é!", normalized=True)])
    return t


def smollm():
    return train(None, pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), byte_level(regex=True)]), ["<|endoftext|>", "<|end|>"])


def strips():
    t = train(None, byte_level(prefix=True, regex=True), ["<|endoftext|>"])
    t.add_tokens([AddedToken("<|left|>", lstrip=True), AddedToken("<|right|>", rstrip=True),
                  AddedToken("<|both|>", lstrip=True, rstrip=True, normalized=False),
                  AddedToken("word", single_word=True), AddedToken("words", normalized=False),
                  AddedToken("<|end|>", special=True, single_word=True)])
    return t


def byte():
    """As GDF writes its byte tokenizer; the characters as in openai/gpt-2, bytes_to_unicode."""
    printable = [b for b in range(256) if 0x21 <= b <= 0x7e or 0xa1 <= b <= 0xac or b >= 0xae]
    others = [b for b in range(256) if b not in printable]
    vocab = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    t.decoder = decoders.ByteLevel()
    return t


def char():
    """As GDF writes a character tokenizer, of the characters of TEXT and some others."""
    alphabet = sorted(set(TEXT + "\x00\x01\r<|>\u2028\ufeff"))
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[],
                             unk_token="a character outside the alphabet"))
    t.decoder = decoders.Fuse()
    return t


COMMITTED = {"byte": byte, "char": char, "gpt2": gpt2, "llama3": llama3, "qwen": qwen, "smollm": smollm,
             "strips": strips}


def variants():
    """More combinations than anyone uses, for the comparison only."""
    n = normalizers
    yield "nfd", train(n.NFD(), byte_level(regex=True), [])
    yield "nfkc lower", train(n.Sequence([n.NFKC(), n.Lowercase()]), byte_level(regex=True), [])
    yield "nfkd strip", train(n.Sequence([n.NFKD(), n.Strip()]), byte_level(regex=True), [])
    yield "prepend replace", train(n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")]), byte_level(), [])
    yield "replace regex", train(n.Replace(Regex(r"\s+"), " "), byte_level(regex=True), [])
    for behavior in ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]:
        for invert in [False, True]:
            for pattern in [r"\s", r"\p{N}{1,2}|\p{P}", r"\w+", r"x*"]:
                yield f"split {behavior} {invert} {pattern}", train(None, pre_tokenizers.Sequence(
                    [split(pattern, behavior, invert), byte_level()]), [])
    yield "split string", train(None, pre_tokenizers.Sequence(
        [pre_tokenizers.Split("e", "merged_with_next"), byte_level()]), [])
    yield "digits contiguous", train(None, pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=False), byte_level()]), [])
    yield "no cut", train(None, byte_level(), [])
    for pattern in [r"[^\S\r\n]+|\W", r"\p{Lu}\p{Ll}*|\p{Han}+|\p{M}", r"(?<=\p{L})\p{N}|^\s|a$",
                    r"\p{N}{1,3}+|(?>a|ab)c|\p{^L}++", r"[\u4e00-\u9fff\p{Hangul}-]|.", r"\P{L}{2,}?|\D"]:
        yield "split " + pattern, train(None, pre_tokenizers.Sequence([split(pattern), byte_level()]), [])
    for options in [{"byte_fallback": True}, {"unk_token": "<unk>"}, {"unk_token": "<unk>", "fuse_unk": True}]:
        t = Tokenizer(models.BPE(**options))
        t.pre_tokenizer = split(r"\s+")
        vocab = ["<unk>"] + [f"<0x{b:02X}>" for b in range(256)] if "byte_fallback" in options else ["<unk>"]
        t.train_from_iterator([TEXT[:300]], trainers.BpeTrainer(
            vocab_size=500, show_progress=False, special_tokens=vocab))
        yield "characters " + str(options), t


def encode(t, text, **options):
    """None where the library refuses the text: a character has no token, nor is there an unknown token."""
    try:
        return t.encode(text, **options)
    except Exception as error:
        if "not found in the vocabulary" not in str(error):
            raise
        return None


def golden(t, text):
    encoding = encode(t, text)
    if encoding is None:
        return {"text": text, "ids": None}
    return {"text": text, "ids": encoding.ids, "plain_ids": t.encode(text, add_special_tokens=False).ids,
            "decoded": t.decode(encoding.ids)}


def main():
    folder = sys.argv[1]
    expected = {}
    for name, make in COMMITTED.items():
        t = make()
        t.save(os.path.join(folder, name + ".json"), pretty=False)
        expected[name] = [golden(t, s) for s in SAMPLES]
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as out:
        json.dump(expected, out, ensure_ascii=True, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()

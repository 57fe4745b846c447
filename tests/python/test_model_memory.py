"""The memory that opening a model takes, beside the file's pages: of files made of as many and as
small parts as the format allows. Entries, tensors and tokenizers: less than the file's size. A chat
template: 200 bytes for each of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_line import peak_memory
from gguf_files import write_gguf
from tiny_models import tokenizer_metadata

MIB = 1 << 20
U8, U32, STRING, ARRAY = 0, 4, 8, 9  # types of values
F32 = 6
I8 = 24  # type of a tensor


def numbers(values: list[int], dtype: str) -> bytes:
    return np.array(values, dtype).tobytes()


def header(tensors: int, entries: int) -> bytes:
    return b"GGUF" + numbers([3], "<u4") + numbers([tensors, entries], "<u8")


def words(count: int, letters: int, alphabet: int = 32) -> np.ndarray:
    """uint8 [count, letters]: different words, the first letter counting first."""
    digits = np.arange(count)[:, None] // alphabet ** np.arange(letters) % alphabet
    return (digits + (ord("a") if alphabet == 32 else 0)).astype("u1")


def key(text: str, kind: int) -> bytes:
    return numbers([len(text)], "<u8") + text.encode() + numbers([kind], "<u4")


def array(name: str, kind: int, count: int, content: bytes) -> bytes:
    opening = key(f"tokenizer.ggml.{name}", ARRAY) + numbers([kind], "<u4")
    return opening + numbers([count], "<u8") + content


def strings(*texts: np.ndarray) -> bytes:
    """Arrays of words [count, letters] as the elements of an array of strings."""
    parts = []
    for text in texts:
        size = np.tile(np.frombuffer(numbers([text.shape[1]], "<u8"), "u1"), (len(text), 1))
        parts.append(np.hstack([size, text]).tobytes())
    return b"".join(parts)


def entries(count: int, last: int) -> bytes:
    """A key of four letters and a byte each; `last` is the type of the last."""
    part = np.zeros(count, [("size", "<u8"), ("key", "u1", 4), ("type", "<u4"), ("value", "u1")])
    part["size"], part["key"], part["type"] = 4, words(count, 4), U8
    part["type"][-1] = last
    return header(0, count) + part.tobytes()


def tensors(count: int, last: int) -> bytes:
    """A name of four letters and one element each."""
    alignment = key("general.alignment", U32) + numbers([8], "<u4")
    fields = [("size", "<u8"), ("name", "u1", 4), ("rank", "<u4"), ("type", "<u4"), ("at", "<u8")]
    part = np.zeros(count, fields)
    part["size"], part["name"], part["type"] = 4, words(count, 4), I8
    part["at"] = 8 * np.arange(count)[::-1]
    part["type"][-1] = last
    return header(count, 1) + alignment + part.tobytes() + bytes(8 * (count + 1))


FILES = {
    "entries": (lambda: entries(1_000_000, U8), "has no tensor"),
    "entries, refused": (lambda: entries(1_000_000, 99), "type 99"),
    "tensors": (lambda: tensors(1_000_000, I8), "has no tensor"),
    "tensors, refused": (lambda: tensors(1_000_000, 99), "type 99"),
}


@pytest.mark.parametrize("name", FILES)
def test_opening_takes_less_than_two_thirds_of_the_file(name: str, tmp_path: Path) -> None:
    build, message = FILES[name]
    content = build()
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    small = write_gguf(tmp_path / "small.gguf", {}, {})
    flags = ["--tensor", "missing", "--out", tmp_path / "none.npy"]
    _, base = peak_memory("inspect", small, *flags)
    result, peak = peak_memory("inspect", path, *flags)
    assert (result.returncode, result.stderr.count("\n")) in [(2, 1), (3, 1), (4, 1)]
    assert message in result.stderr
    pages = len(content)  # of the file itself
    assert peak - base <= pages + len(content) * 2 / 3 + MIB


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["table", "JSON"])
@pytest.mark.parametrize("name", ["entries", "tensors"])
def test_inspecting_keeps_no_more(name: str, flags: list[str], tmp_path: Path) -> None:
    content = FILES[name][0]()
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    small = write_gguf(tmp_path / "small.gguf", {}, {})
    _, base = peak_memory("inspect", small, *flags)
    result, peak = peak_memory("inspect", path, *flags)
    assert result.returncode == 0
    assert result.stdout.count("\n") > 1_000_000
    assert peak - base <= len(content) + len(content) * 2 / 3 + MIB


def vocabulary(model: str, *lists: bytes) -> bytes:
    name = key("tokenizer.ggml.model", STRING) + numbers([len(model)], "<u8") + model.encode()
    return header(0, 1 + len(lists)) + name + b"".join(lists)


def tokens(count: int, letters: int = 4, alphabet: int = 32) -> bytes:
    return array("tokens", STRING, count, strings(words(count, letters, alphabet)))


def merges(count: int = 0, line: np.ndarray | None = None) -> bytes:
    return array("merges", STRING, count, b"" if line is None else strings(line))


def of_types(count: int, kind: int) -> bytes:
    return array("token_type", U8, count, bytes([kind]) * count)


def every_split(count: int) -> bytes:
    """Words of one to four letters, and the words of four from each of their two parts."""
    sizes = [min(count, 32**letters) for letters in (1, 2, 3, 4)]
    parts = [words(size, letters + 1) for letters, size in enumerate(sizes)]
    long = words(count, 4)
    space = np.full((count, 1), ord(" "), "u1")
    lines = [np.hstack([long[:, :cut], space, long[:, cut:]]) for cut in (1, 2, 3)]
    return vocabulary(
        "gpt2",
        array("tokens", STRING, sum(sizes), strings(*parts)),
        array("merges", STRING, 3 * count, strings(*lines)),
    )


def repeated(count: int) -> bytes:
    letters = strings(words(32, 1), words(1024, 2))
    line = np.tile(np.frombuffer(b"a b", "u1"), (count, 1))
    return vocabulary("gpt2", array("tokens", STRING, 32 + 1024, letters), merges(count, line))


N = 1_000_000
VOCABULARIES: dict[str, Callable[[], bytes]] = {
    "tokens": lambda: vocabulary("gpt2", tokens(N), merges()),
    "control tokens": lambda: vocabulary("gpt2", tokens(N, 3, 128), of_types(N, 3), merges()),
    "user-defined tokens": lambda: vocabulary("gpt2", tokens(N, 3, 128), of_types(N, 4), merges()),
    "empty tokens": lambda: vocabulary("gpt2", tokens(N, 0), of_types(N, 5), merges()),  # unused
    "scores": lambda: vocabulary("llama", tokens(N), array("scores", F32, N, bytes(4 * N))),
    "merges": lambda: every_split(1 << 18),
    "repeated merges": lambda: repeated(N),
}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_tokenizer_takes_no_more_than_its_file_has(name: str, tmp_path: Path) -> None:
    content = VOCABULARIES[name]()
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    small = write_gguf(tmp_path / "small.gguf", tokenizer_metadata(), {})
    _, base = peak_memory("tokenize", small, "-p", "")
    result, peak = peak_memory("tokenize", path, "-p", "")
    assert result.returncode == 0, result.stderr
    pages = len(content)
    assert peak - base <= pages + len(content) + MIB


DENSE = {"negative": "-1,", "integers": "1,", "lists": "[],", "outputs": "b{{a}}"}
SOURCE_BYTES = 1 << 18  # the longest template


@pytest.mark.parametrize("name", DENSE)
def test_a_parsed_template_takes_200_bytes_for_each_of_its_own(name: str, tmp_path: Path) -> None:
    item = DENSE[name]
    first, last = ("", "") if "{{" in item else ("{{ [", "] }}")
    first, last = "{% if false %}" + first, last + "{% endif %}"
    count = (SOURCE_BYTES - len(first) - len(last)) // len(item)
    (tmp_path / "empty").touch()
    (tmp_path / "t").write_text(first + count * item + last)
    _, base = peak_memory("template", "render", tmp_path / "empty")
    result, peak = peak_memory("template", "render", tmp_path / "t")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert peak - base <= 200 * SOURCE_BYTES

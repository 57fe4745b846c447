"""Builds small GGUF files with the `gguf` package: for tests, and as seeds of the fuzzer.

Example:
    >>> write_gguf(path, {"llama.block_count": 2}, {"output_norm.weight": np.ones(8, np.float32)})

Run as a script, `python gguf_files.py DIRECTORY` writes the seed corpus of tests/fuzz/gguf_fuzz.cc.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFValueType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

# The block formats tilewright reads, by tilewright's name.
BLOCK_TYPES = {
    "q4_0": GGMLQuantizationType.Q4_0,
    "q4_1": GGMLQuantizationType.Q4_1,
    "q5_0": GGMLQuantizationType.Q5_0,
    "q5_1": GGMLQuantizationType.Q5_1,
    "q8_0": GGMLQuantizationType.Q8_0,
    "q2_k": GGMLQuantizationType.Q2_K,
    "q3_k": GGMLQuantizationType.Q3_K,
    "q4_k": GGMLQuantizationType.Q4_K,
    "q5_k": GGMLQuantizationType.Q5_K,
    "q6_k": GGMLQuantizationType.Q6_K,
    "iq4_nl": GGMLQuantizationType.IQ4_NL,
    "iq4_xs": GGMLQuantizationType.IQ4_XS,
    "mxfp4": GGMLQuantizationType.MXFP4,
}

# Where the f16 scales (d, and m or dmin) stand in a block.
SCALE_OFFSETS = {
    "q4_0": (0,),
    "q4_1": (0, 2),
    "q5_0": (0,),
    "q5_1": (0, 2),
    "q8_0": (0,),
    "q2_k": (80, 82),
    "q3_k": (108,),
    "q4_k": (0, 2),
    "q5_k": (0, 2),
    "q6_k": (208,),
    "iq4_nl": (0,),
    "iq4_xs": (0,),
    "mxfp4": (),
}


@dataclass
class Typed:
    """A metadata value with its type in the file; `element` for arrays."""

    value: Any
    type: GGUFValueType
    element: GGUFValueType | None = None


@dataclass
class Raw:
    """Quantised rows: uint8 [..., bytes of a row], and what they are."""

    rows: np.ndarray
    type: GGMLQuantizationType


def typed(value: Any) -> Typed:
    """Gives a Python value the type that model files use: u32 (i32 if negative), f32, ..."""
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed(value, GGUFValueType.BOOL)
    if isinstance(value, int):
        return Typed(value, GGUFValueType.INT32 if value < 0 else GGUFValueType.UINT32)
    if isinstance(value, float):
        return Typed(value, GGUFValueType.FLOAT32)
    if isinstance(value, str | bytes):
        return Typed(value, GGUFValueType.STRING)
    return Typed(value, GGUFValueType.ARRAY)


def write_gguf(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray | Raw],
    arch: str = "llama",
    alignment: int = 32,
) -> Path:
    """Writes a GGUF version 3 file. Tensor shapes are row-major, as in PyTorch."""
    writer = GGUFWriter(path, arch)
    if alignment != 32:
        writer.add_custom_alignment(alignment)
    for key, value in metadata.items():
        if key == "general.architecture":
            continue
        entry = typed(value)
        writer.add_key_value(key, entry.value, entry.type, entry.element)
    for name, tensor in tensors.items():
        if isinstance(tensor, Raw):
            writer.add_tensor(name, tensor.rows, raw_dtype=tensor.type)
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def random_blocks(
    name: str, shape: tuple[int, ...], rng: np.random.Generator, scale: float = 0.05
) -> Raw:
    """Random codes for a [..., cols] tensor; the f16 scales are normal and of size `scale`."""
    qtype = BLOCK_TYPES[name]
    elements, size = GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, (int(np.prod(shape)) // elements, size), dtype=np.uint8)
    for offset in SCALE_OFFSETS[name]:
        scales = rng.normal(0, scale, len(blocks)).astype(np.float16)
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    if name == "mxfp4":
        blocks[:, 0] = rng.integers(110, 135, len(blocks))
    return Raw(blocks.reshape(*shape[:-1], shape[-1] // elements * size), qtype)


def every_type(path: Path, rng: np.random.Generator) -> Path:
    """One small tensor of every type and one value of every metadata type."""
    t = GGUFValueType
    metadata = {
        "t.u8": Typed(255, t.UINT8),
        "t.i8": Typed(-128, t.INT8),
        "t.u16": Typed(65535, t.UINT16),
        "t.i16": Typed(-32768, t.INT16),
        "t.u32": Typed(2**32 - 1, t.UINT32),
        "t.i32": Typed(-(2**31), t.INT32),
        "t.u64": Typed(2**64 - 1, t.UINT64),
        "t.i64": Typed(-(2**63), t.INT64),
        "t.f32": Typed(1e-5, t.FLOAT32),
        "t.f64": Typed(1e-300, t.FLOAT64),
        "t.bool": True,
        "t.string": "häß\n\x1b[31m€",
        "t.bad_utf8": b"ab\xff\xc3(",
        "t.strings": ["", "a", "bc"],
        "t.ints": [-1, 2, -3],
        "t.floats": [0.5, -0.25],
        "t.bools": [True, False],
        "t.nested": [[1, 2], [3]],
    }
    tensors: dict[str, np.ndarray | Raw] = {
        "f32": rng.normal(size=(2, 3)).astype(np.float32),
        "f16": rng.normal(size=5).astype(np.float16),
        "bf16": Raw(rng.integers(0, 256, (2, 4), dtype=np.uint8), GGMLQuantizationType.BF16),
        "f64": rng.normal(size=3),
        "i8": np.arange(-3, 3, dtype=np.int8),
        "i16": np.arange(-3, 3, dtype=np.int16) * 1000,
        "i32": np.arange(-3, 3, dtype=np.int32) * 100001,
        "i64": np.arange(-3, 3, dtype=np.int64) << 40,
    }
    for name in BLOCK_TYPES:
        elements, _ = GGML_QUANT_SIZES[BLOCK_TYPES[name]]
        tensors[name] = random_blocks(name, (1, elements), rng)
    return write_gguf(path, metadata, tensors)


def smallest_model(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata and tensors of a Llama of one layer."""
    sizes = {
        "context_length": 16,
        "embedding_length": 32,
        "block_count": 1,
        "feed_forward_length": 32,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": 16,
        "rope.freq_base": 1e4,
    }
    rows = {"attn_q": 32, "attn_k": 16, "attn_v": 16, "attn_output": 32, "ffn_gate": 32}
    rows |= {"ffn_up": 32, "ffn_down": 32}
    tensors: dict[str, Any] = {"token_embd.weight": random_blocks("q8_0", (5, 32), rng)}
    for name, count in rows.items():
        tensors[f"blk.0.{name}.weight"] = random_blocks("q4_0", (count, 32), rng)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        tensors[f"{name}.weight"] = np.ones(32, np.float32)
    return {f"llama.{key}": value for key, value in sizes.items()}, tensors


def write_seeds(directory: Path) -> None:
    """The seed corpus: small files that reach each part of the reader."""
    rng = np.random.default_rng(0)
    directory.mkdir(parents=True, exist_ok=True)
    every_type(directory / "every_type.gguf", rng)
    write_gguf(directory / "empty.gguf", {}, {})
    write_gguf(
        directory / "aligned.gguf",
        {"llama.block_count": 1, "llama.rope.freq_base": 1e4},
        {"a": np.ones((2, 2, 2, 2), np.float32), "b": random_blocks("q4_1", (2, 64), rng)},
        alignment=64,
    )
    tokens = ["<s>", "</s>", "a", "b", "ab"]
    write_gguf(
        directory / "tokenizer.gguf",
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.scores": [-1.0] * len(tokens),
            "tokenizer.ggml.token_type": [3, 3, 1, 1, 1],
            "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.add_bos_token": False,
        },
        {},
    )
    write_gguf(directory / "model.gguf", *smallest_model(rng))
    whole = (directory / "aligned.gguf").read_bytes()
    (directory / "version_2.gguf").write_bytes(whole[:4] + struct.pack("<I", 2) + whole[8:])
    (directory / "cut_short.gguf").write_bytes(whole[:-100])
    (directory / "huge_claim.gguf").write_bytes(
        b"GGUF" + struct.pack("<IQQ", 3, 10**18, 10**18) + bytes(64)
    )


if __name__ == "__main__":
    write_seeds(Path(sys.argv[1]))

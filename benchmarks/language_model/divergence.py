#!/usr/bin/env python3
"""How far 8-bit activations move a model's predictions: tilewright's and llama.cpp's, by one text.

The reference is tilewright's exact mode, which computes in float32 with the file's own weights and
is itself compared with transformers by the tests. llama.cpp is the library inside llama-cpp-python,
called through its C interface; without that package only tilewright is measured.

Example:
    $ .venv-peers/bin/python benchmarks/language_model/divergence.py model.gguf book.txt
    {"model": "model.gguf", ..., "tilewright": {"kl_divergence": 0.0022, ...}, ...}
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from environment import environment

TOOL = os.environ.get("TILEWRIGHT_BIN", "build/release/tilewright")

Logits = Callable[[list[int]], np.ndarray]  # of a sequence from its start: [tokens, vocabulary]


def tilewright(model: Path, *flags: str) -> Logits:
    """The tool's logits."""

    def logits(tokens: list[int]) -> np.ndarray:
        with tempfile.TemporaryDirectory() as directory:
            out = Path(directory) / "logits.npy"
            listed = ",".join(map(str, tokens))
            command = [TOOL, "logits", str(model), "--tokens", listed, "--out", str(out), *flags]
            subprocess.run(command, check=True)
            return np.load(out)

    return logits


# llama.cpp keeps a pointer to it.
SILENT = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)


class Opaque(ctypes.Structure):
    """A parameter struct whose first fields are 32-bit counts; larger than any version of it."""

    _fields_ = [("counts", ctypes.c_uint32 * 8), ("rest", ctypes.c_byte * 2016)]


class Batch(ctypes.Structure):
    """`struct llama_batch`."""

    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


def llama_cpp(model: Path, window: int, vocabulary: int) -> Logits:
    """llama.cpp's logits with its default settings."""
    spec = importlib.util.find_spec("llama_cpp")
    lib = ctypes.CDLL(str(Path(spec.origin).parent / "lib" / "libllama.so"))
    pointer, count = ctypes.c_void_p, ctypes.c_int32
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "llama_log_set": (None, [type(SILENT), pointer]),
        "llama_model_default_params": (Opaque, []),
        "llama_model_load_from_file": (pointer, [ctypes.c_char_p, Opaque]),
        "llama_context_default_params": (Opaque, []),
        "llama_init_from_model": (pointer, [pointer, Opaque]),
        "llama_batch_init": (Batch, [count, count, count]),
        "llama_decode": (count, [pointer, Batch]),
        "llama_get_logits": (ctypes.POINTER(ctypes.c_float), [pointer]),
        "llama_free": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        getattr(lib, name).restype = result
        getattr(lib, name).argtypes = arguments
    lib.llama_log_set(SILENT, None)
    loaded = lib.llama_model_load_from_file(bytes(model), lib.llama_model_default_params())

    def logits(tokens: list[int]) -> np.ndarray:
        settings = lib.llama_context_default_params()
        settings.counts[:3] = [window] * 3  # context, batch, part of a batch
        context = lib.llama_init_from_model(loaded, settings)
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, i, 1
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        if lib.llama_decode(context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        flat = np.ctypeslib.as_array(lib.llama_get_logits(context), (len(tokens), vocabulary))
        out = flat.copy()
        lib.llama_free(context)
        return out

    return logits


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis, in float64."""
    x = x - x.max(axis=-1, keepdims=True).astype(np.float64)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def main() -> None:
    """Prints the comparison as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("text", type=Path, metavar="TEXT")
    parser.add_argument("--tokens", type=int, default=4200, help="how much of the text")
    parser.add_argument("--window", type=int, default=525, help="tokens of a sequence")
    parser.add_argument("--out", type=Path, help="write JSON there, not to stdout")
    options = parser.parse_args()
    tokenized = subprocess.run(
        [TOOL, "tokenize", options.model, "-f", options.text, "--json"],
        check=True,
        capture_output=True,
    )
    tokens = json.loads(tokenized.stdout)["tokens"][: options.tokens]

    exact = tilewright(options.model, "--exact")
    contenders: dict[str, Logits] = {"tilewright": tilewright(options.model)}
    has_llama_cpp = importlib.util.find_spec("llama_cpp") is not None
    if has_llama_cpp:
        vocabulary = exact(tokens[:1]).shape[1]
        contenders["llama.cpp"] = llama_cpp(options.model, options.window, vocabulary)
    divergences: dict[str, list[np.ndarray]] = {name: [] for name in contenders}
    surprises: dict[str, list[np.ndarray]] = {name: [] for name in ["exact", *contenders]}
    for start in range(0, len(tokens) - 1, options.window):
        part = tokens[start : start + options.window]
        following = np.array(part[1:])[:, None]
        want = log_softmax(exact(part))
        surprises["exact"].append(-np.take_along_axis(want[:-1], following, 1))
        for name, logits in contenders.items():
            got = log_softmax(logits(part))
            divergences[name].append((np.exp(want) * (want - got)).sum(axis=-1))
            surprises[name].append(-np.take_along_axis(got[:-1], following, 1))
    means = {name: float(np.concatenate(values).mean()) for name, values in surprises.items()}
    result: dict[str, Any] = {
        "model": options.model.name,
        "text": options.text.name,
        "env": environment(TOOL),
        "tokens": len(tokens),
        "perplexity": float(np.exp(means["exact"])),
    }
    if has_llama_cpp:
        result["peer"] = f"llama-cpp-python {importlib.metadata.version('llama_cpp_python')}"
    for name in contenders:
        divergence = np.concatenate(divergences[name])
        result[name] = {
            "kl_divergence": float(divergence.mean()),
            "kl_divergence_99_percent": float(np.quantile(divergence, 0.99)),
            "perplexity_ratio": float(np.exp(means[name] - means["exact"])),
        }
    text = json.dumps(result, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()

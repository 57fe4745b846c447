"""What the binding declares of PyTorch's C interface is what the installed PyTorch has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]
SHIM = ROOT / "python" / "src" / "torch_shim.h"
HEADERS = ("torch/csrc/inductor/aoti_torch/c/shim.h", "torch/csrc/stable/c/shim.h")
DECLARATION = re.compile(
    r"\b(AOTITorchError|int32_t)\s+((?:aoti_)?torch_\w+)\(([^;{]*?)\)\s*;", re.S
)


def declarations(source: str) -> dict[str, tuple[str, ...]]:
    """Return type and parameter types by name, without names and comments."""
    source = re.sub(r"//[^\n]*", "", source).replace("AOTI_TORCH_EXPORT", "")
    found = {}
    for result, name, text in DECLARATION.findall(source):
        nested = re.sub(r"\(\*\w+\)", "(*)", " ".join(text.split()))
        parts = re.split(r",\s*(?![^()]*\))", nested) if nested else []
        types = (part if part.endswith(")") else re.sub(r"\s*\b\w+$", "", part) for part in parts)
        found[name] = (result, *(re.sub(r"\s+", "", kind) for kind in types))
    return found


def test_declarations_match_the_installed_headers() -> None:
    include = Path(torch.__file__).parent / "include"
    theirs: dict[str, tuple[str, ...]] = {}
    for header in HEADERS:
        if not (include / header).exists():
            pytest.skip(f"this PyTorch carries no {header}")
        theirs.update(declarations((include / header).read_text()))
    ours = declarations(SHIM.read_text())
    assert len(ours) > 25
    assert {name: theirs.get(name) for name in ours} == ours

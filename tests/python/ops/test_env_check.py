"""python -m tilewright.env_check: what it calls broken, and what merely absent."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright import env_check

ROOT = Path(__file__).resolve().parents[3]


def report(**environment: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code and what was found, in a new interpreter."""
    result = subprocess.run(
        [sys.executable, "-m", "tilewright.env_check", "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def test_all_that_is_needed_works() -> None:
    code, found = report()
    assert code == 0, found
    assert found["library"]["state"] == found["kernels"]["state"] == "ok"


def test_a_library_that_is_missing_is_broken() -> None:
    assert report(TILEWRIGHT_LIBRARY_DIR="/")[0] == 1


@pytest.mark.parametrize(
    ("variable", "value"), [("TILEWRIGHT_ISA", "bogus"), ("TILEWRIGHT_NUM_THREADS", "many")]
)
def test_a_choice_that_cannot_be_made_is_broken(variable: str, value: str) -> None:
    code, found = report(**{variable: value})
    assert code == 1
    assert found["library"]["state"] == "broken"
    assert f'{variable} is "{value}"' in found["library"]["text"]


def test_without_numpy_pytorch_tries_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "numpy", None)
    state, text = env_check._kernels()
    assert (state, text[:14]) == ("ok", "softmax within")
    pretend(monkeypatch, "torch", None)
    state, text = env_check._kernels()
    assert state == "absent"
    assert "neither NumPy nor PyTorch" in text


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")


def pretend(monkeypatch: pytest.MonkeyPatch, package: str, version: str | None) -> None:
    """A package is of this version, or not installed."""
    real = importlib.metadata.version

    def told(name: str) -> str:
        if name != package:
            return real(name)
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", told)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("2.9.1+cu130", "torch 2.9.1+cu130 is too old: torch.ops.tilewright needs 2.11"),
        (None, "torch is not installed (pip install tilewright[torch])"),
    ],
)
def test_what_only_a_later_pytorch_brings_is_absent(
    version: str | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "torch", version)
    monkeypatch.setattr(sys, "argv", ["env_check"])
    found = env_check.collect()
    for part in ("torch", "cuda"):
        assert found[part] == {"state": "absent", "text": text}
    assert found["transformers"]["state"] == "absent"
    assert env_check.main() == 0


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("4.57.0", "transformers 4.57.0 is too old: tilewright.hf needs 5.0"),
        (None, "transformers is not installed (pip install tilewright[hf])"),
    ],
)
def test_transformers_that_hf_cannot_use_are_absent(
    version: str | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "transformers", version)
    if env_check.collect()["torch"]["state"] == "ok":
        assert env_check.collect()["transformers"] == {"state": "absent", "text": text}

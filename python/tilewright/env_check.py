"""python -m tilewright.env_check: what of tilewright works here, what does not, and why.

Prints one line per part and runs one operator against its definition. Exits with 1 only where
something needed is broken; that PyTorch is not installed, or too old, is no fault.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Callable
from typing import Any

from tilewright import __version__

FLOOR = (2, 11)
TRANSFORMERS_FLOOR = (5, 0)


def _library() -> tuple[str, str]:
    from tilewright import _call, _library

    library = _library.load()
    isa = library.tw_isa().decode()
    if not isa:
        return "broken", library.tw_last_error().decode()
    _call._context()  # refuses a number of threads that cannot be
    text = f"{library.tw_version().decode()}, {len(_library.catalog())} operators"
    return "ok", f"{text}, kernels for {isa}"


def _kernels() -> tuple[str, str]:
    arrays: Any
    try:
        arrays = importlib.import_module("numpy")
    except ImportError:
        if _why_no_torch()[1]:
            return "absent", "neither NumPy nor PyTorch is installed, whose arrays operators take"
        arrays = importlib.import_module("torch")
    from tilewright import ops

    x = arrays.linspace(-4, 4, 4099, dtype=arrays.float32).reshape(1, -1)
    worst = float(abs(ops.softmax(x) - ops.softmax(x, backend="reference")).max())
    return ("ok" if worst < 1e-6 else "broken"), f"softmax within {worst:.1e} of its definition"


def _why_not(package: str, floor: tuple[int, int], extra: str, what: str) -> tuple[str, str]:
    """The version of a package, and why `what` cannot use it; empty where it can."""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "", f"{package} is not installed (pip install tilewright[{extra}])"
    if tuple(int(part) for part in version.split(".")[:2]) >= floor:
        return version, ""
    return version, f"{package} {version} is too old: {what} needs {'.'.join(map(str, floor))}"


def _why_no_torch() -> tuple[str, str]:
    return _why_not("torch", FLOOR, "torch", "torch.ops.tilewright")


def _torch() -> tuple[str, str]:
    version, why = _why_no_torch()
    if why:
        return "absent", why
    import torch

    from tilewright import _torch

    _torch.load()
    result = torch.ops.tilewright.exp(torch.zeros(4))
    good = bool((result == 1).all())
    return ("ok" if good else "broken"), f"torch {version}, {torch.get_num_threads()} threads"


def _cuda() -> tuple[str, str]:
    _, why = _why_no_torch()
    if why:
        return "absent", why
    import torch

    from tilewright import _torch

    if not torch.cuda.is_available():
        return "absent", "PyTorch finds no GPU"
    name = torch.cuda.get_device_name()
    _torch.load()
    try:
        good = bool((torch.ops.tilewright.exp(torch.zeros(4, device="cuda")) == 1).all())
    except RuntimeError as error:
        if "this library has none" in str(error):
            return "absent", f"{name}, but this library was built without CUDA kernels"
        raise
    return ("ok" if good else "broken"), name


def _transformers() -> tuple[str, str]:
    version, why = _why_not("transformers", TRANSFORMERS_FLOOR, "hf", "tilewright.hf")
    _, why_no_torch = _why_no_torch()
    if why or why_no_torch:
        return "absent", why or why_no_torch
    importlib.import_module("tilewright.hf")
    return "ok", f"transformers {version}"


CHECKS: dict[str, Callable[[], tuple[str, str]]] = {
    "library": _library,
    "kernels": _kernels,
    "torch": _torch,
    "cuda": _cuda,
    "transformers": _transformers,
}


def collect() -> dict[str, dict[str, str]]:
    """The state (ok, absent or broken) and a sentence for each part."""
    found = {
        "tilewright": {"state": "ok", "text": __version__},
        "python": {"state": "ok", "text": f"{platform.python_version()}, {platform.platform()}"},
    }
    for name, check in CHECKS.items():
        try:
            state, text = check()
        except Exception as error:  # whatever is wrong is what we are here to report
            state, text = "broken", f"{type(error).__name__}: {error}"
        found[name] = {"state": state, "text": text}
    return found


def main() -> int:
    """Prints the report; 1 if something is broken."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.env_check", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    found = collect()
    if parser.parse_args().json:
        print(json.dumps(found, indent=2))
    else:
        for name, entry in found.items():
            print(f"{name:<12} {entry['state']:<7} {entry['text']}")
    return int(any(entry["state"] == "broken" for entry in found.values()))


if __name__ == "__main__":
    sys.exit(main())

"""python -m tilewright.env_check: what of tilewright works here, what does not, and why.

Prints one line per part and runs one operator against its definition. Exits with 1 only where
something needed is broken; that PyTorch is not installed is no fault.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from collections.abc import Callable

from tilewright import __version__

FLOOR = (2, 11)


def _library() -> tuple[str, str]:
    from tilewright import _library

    library = _library.load()
    text = f"{library.tw_version().decode()}, {len(_library.catalog())} operators"
    return "ok", f"{text}, kernels for {library.tw_isa().decode()}"


def _kernels() -> tuple[str, str]:
    try:
        import numpy as np
    except ImportError:
        return "absent", "NumPy is not installed: operators take PyTorch tensors only"
    from tilewright import ops

    x = np.linspace(-4, 4, 4099, dtype=np.float32).reshape(1, -1)
    worst = float(np.abs(ops.softmax(x) - ops.softmax(x, backend="reference")).max())
    return ("ok" if worst < 1e-6 else "broken"), f"softmax within {worst:.1e} of its definition"


def _torch() -> tuple[str, str]:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "absent", "PyTorch is not installed (pip install tilewright[torch])"
    if tuple(int(part) for part in version.split(".")[:2]) < FLOOR:
        needed = ".".join(map(str, FLOOR))
        return "absent", f"torch {version} is too old: torch.ops.tilewright needs {needed}"
    import torch

    from tilewright import _torch

    _torch.load()
    result = torch.ops.tilewright.exp(torch.zeros(4))
    good = bool((result == 1).all())
    return ("ok" if good else "broken"), f"torch {version}, {torch.get_num_threads()} threads"


def _cuda() -> tuple[str, str]:
    try:
        import torch
    except ImportError:
        return "absent", "PyTorch, which would bring tensors on a GPU, is not installed"
    if not torch.cuda.is_available():
        return "absent", "PyTorch finds no GPU"
    name = torch.cuda.get_device_name()
    try:
        good = bool((torch.ops.tilewright.exp(torch.zeros(4, device="cuda")) == 1).all())
    except RuntimeError as error:
        if "this library has none" in str(error):
            return "absent", f"{name}, but this library was built without CUDA kernels"
        raise
    return ("ok" if good else "broken"), name


CHECKS: dict[str, Callable[[], tuple[str, str]]] = {
    "library": _library,
    "kernels": _kernels,
    "torch": _torch,
    "cuda": _cuda,
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
            print(f"{name:<11} {entry['state']:<7} {entry['text']}")
    return int(any(entry["state"] == "broken" for entry in found.values()))


if __name__ == "__main__":
    sys.exit(main())

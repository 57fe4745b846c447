"""Which implementation of an operator runs.

A backend is a name: `cpu` and `cuda` are tilewright's kernels, `reference` is each operator's
definition in float64, `torch` is what PyTorch makes of it (tilewright.composites). As the current
backend `cpu` and `cuda` both stand for the kernels of the device that a call's arrays are on; named
in a call, it must be that device. `register_impl` adds or replaces an implementation of any
operator. Nothing falls back silently: with the policy `error`, the default, a call that the backend
does not take raises; `reference` and `torch` name the backend that takes over, and
`tilewright.explain()` shows each time it did.

All of it is about `tilewright.ops` and what calls that: `tilewright.nn`, `hf` and `compat`.
`torch.ops.tilewright.NAME` is the kernel itself, whatever is set or registered, because PyTorch's
dispatcher, gradients and compiled graphs have to know what they call.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tilewright import _library, _schema, composites

BACKENDS = ("cpu", "cuda", "reference", "torch")
KERNELS = ("cpu", "cuda")  # of the library's own
POLICIES = ("error", "reference", "torch")

_current: contextvars.ContextVar[str] = contextvars.ContextVar("tilewright_backend")
_named: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "tilewright_named", default=None
)
_default = "cpu"
_NOTHING: tuple[str, str | None] = "", None
_blocks: list[tuple[object, tuple[str, str | None]]] = []  # that are open, of all threads
_asked = _NOTHING  # _current and _named of the latest: torch.compile cannot read them
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Implementation:
    """A user's implementation of one operator."""

    forward: Callable[..., Any]
    backward: Callable[..., Any] | None = None


_registered: dict[tuple[str, str], Implementation] = {}


def get_available_backends() -> list[str]:
    """Backends that can run something on this machine.

    Example:
        >>> import tilewright
        >>> "reference" in tilewright.get_available_backends()
        True
    """
    used = {backend for _, backend in _registered}
    return [name for name in BACKENDS if name in used or not why_unavailable(name)]


def cpu_unavailable() -> str:
    """Why no kernel can run on this processor; empty where kernels can."""
    library = _library.load()
    reason: str = "" if library.tw_isa() else library.tw_last_error().decode()
    return reason


def cuda_unavailable() -> str:
    """Why no call can run on a GPU; empty where calls can."""
    reason: str = _library.load().tw_cuda_unavailable().decode()
    return reason


def get_available_backends_for_op(op: str) -> list[str]:
    """Backends that can run this operator.

    Raises:
        ValueError: there is no such operator.

    Example:
        >>> import tilewright
        >>> "reference" in tilewright.get_available_backends_for_op("exp")
        True
    """
    used = {backend for name, backend in _registered if name == op} | {"reference"}
    if not cpu_unavailable():
        used.add("cpu")
    if _schema.find(op).on_cuda and not cuda_unavailable():
        used.add("cuda")
    if not composites.why_none(op):
        used.add("torch")
    return [name for name in BACKENDS if name in used]


def why_unavailable(name: str) -> str:
    """Why a backend can run nothing on this machine; empty where it can."""
    if name == "cpu":
        return cpu_unavailable()
    if name == "cuda":
        return cuda_unavailable()
    return "" if name != "torch" or composites.is_available() else "PyTorch is not installed"


def candidates(reason: Callable[[str], str] = why_unavailable) -> str:
    """All backends, each with the reason that speaks against it, for errors."""
    told = (f"{name}: {reason(name) or 'available'}" for name in BACKENDS)
    return f"Candidates: {'; '.join(told)}"


def check_backend(name: str) -> str:
    """`name`, if it is a backend.

    Raises:
        ValueError: it is not; the message lists those there are.
    """
    if name not in BACKENDS:
        raise ValueError(f"there is no backend {name!r}. {candidates()}")
    return name


def get_current_backend() -> str:
    """The backend of calls that name none.

    Example:
        >>> import tilewright
        >>> tilewright.get_current_backend()
        'cpu'
    """
    return _current.get(_default)


def traced_backend(place: str) -> str:
    """The backend of a call that torch.compile traces and that names none.

    It traces again when this has changed.

    Args:
        place: the backend among KERNELS of the device that the call's arrays are on.
    """
    current, named = _asked
    wanted = current or _default
    return named or (place if wanted in KERNELS else wanted)


def is_default() -> bool:
    """Whether calls go to tilewright's own kernels."""
    return not _registered and _current.get(_default) in KERNELS and _named.get() is None


def set_backend(name: str) -> None:
    """Sets the backend of calls of tilewright.ops that name none, for the whole process.

    Example:
        >>> import tilewright
        >>> tilewright.set_backend("cpu")
        >>> tilewright.get_current_backend()
        'cpu'

    Raises:
        ValueError: there is no such backend.
    """
    global _default
    _default = check_backend(name)


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Within the block calls of tilewright.ops that name none use this one: in this thread or task.

    What torch.compile has made is called within the block, not the block within it. Calls of
    torch.ops.tilewright are those of the kernels all the same.

    Example:
        >>> import tilewright
        >>> with tilewright.use_backend("reference"):
        ...     tilewright.get_current_backend()
        'reference'
    """
    with _block(check_backend(name), _named.get()):
        yield


@contextlib.contextmanager
def _block(current: str, named: str | None) -> Iterator[None]:
    """Within it these are this thread's or task's, and the next trace's."""
    global _asked
    tokens = _current.set(current), _named.set(named)
    block = object(), (current, named)
    with _lock:
        _blocks.append(block)
        _asked = block[1]
    try:
        yield
    finally:
        with _lock:
            _blocks.remove(block)
            _asked = _blocks[-1][1] if _blocks else _NOTHING
        _current.reset(tokens[0])
        _named.reset(tokens[1])


def named_backend() -> str | None:
    """The backend that calls name which name none themselves; see naming()."""
    return _named.get()


@contextlib.contextmanager
def naming(name: str | None) -> Iterator[None]:
    """Within the block it is as if each call that names no backend had named this one.

    For functions of several calls that take a backend themselves. They may be traced.

    Args:
        name: the backend; None for tilewright's kernels of the device that arrays are on.
    """
    global _asked
    wanted = KERNELS[0] if name is None else check_backend(name)
    torch = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling():
        before, _asked = _asked, (wanted, name)
        try:
            yield
        finally:
            _asked = before
        return
    with _block(wanted, name):
        yield


def register_impl(
    op: str,
    backend: str,
    forward: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Makes `forward` the implementation of an operator of tilewright.ops on a backend.

    torch.ops.tilewright keeps the kernels.

    Args:
        op: the operator's name.
        backend: one of BACKENDS.
        forward: called with the operator's arguments, all by position; returns what the schema
            says, which is checked.
        backward: called with ctx and the results' gradients; returns one for each argument, of its
            shape and dtype; None for those that need none, which may be left out at the end.
            ctx.saved_tensors holds the tensors among the arguments and then the results,
            ctx.arguments the other arguments. Without it PyTorch records what forward does.
        overwrite: whether an earlier registration may be replaced.

    Raises:
        ValueError: no such operator or backend, or it has an implementation already.
        TypeError: an implementation cannot be called.

    Example:
        >>> import numpy as np
        >>> import tilewright
        >>> tilewright.register_impl("exp", "torch", lambda x: np.exp(x))
        >>> tilewright.ops.exp(np.zeros(2, np.float32), backend="torch")
        array([1., 1.], dtype=float32)
        >>> tilewright.unregister_impl("exp", "torch")
    """
    _schema.find(op)
    for function in (forward, backward):
        if function is not None and not callable(function):
            raise TypeError(f"{op}: an implementation must be callable, not {function!r}")
    key = (op, check_backend(backend))
    if key in _registered and not overwrite:
        raise ValueError(f"{op} has an implementation for {backend}; overwrite=True replaces it")
    _registered[key] = Implementation(forward, backward)


def unregister_impl(op: str, backend: str) -> None:
    """Removes what register_impl added, whose docstring shows it.

    Raises:
        ValueError: there is no such registration.
    """
    if _registered.pop((op, backend), None) is None:
        raise ValueError(f"nothing is registered for {op} on {backend}")


def registered_impls() -> dict[tuple[str, str], Implementation]:
    """All registrations, by operator and backend.

    Example:
        >>> import tilewright
        >>> tilewright.registered_impls()
        {}
    """
    return dict(_registered)


def find_impl(op: str, backend: str) -> Implementation | None:
    """The user's implementation of an operator on a backend, if there is one."""
    return _registered.get((op, backend)) if _registered else None


def fallback_policy() -> str:
    """What happens when a backend does not take a call: TILEWRIGHT_FALLBACK, by default `error`.

    Raises:
        ValueError: the variable holds something else than error, reference or torch, or
            DISABLE_FALLBACK something else than 0 or 1.
    """
    disabled = os.environ.get("DISABLE_FALLBACK", "0")
    if disabled not in ("0", "1"):
        raise ValueError(f"DISABLE_FALLBACK={disabled!r} must be 0 or 1")
    policy = os.environ.get("TILEWRIGHT_FALLBACK", "error")
    if disabled == "1":
        return "error"
    if policy not in POLICIES:
        raise ValueError(f"TILEWRIGHT_FALLBACK={policy!r} must be one of {', '.join(POLICIES)}")
    return policy

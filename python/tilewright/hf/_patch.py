"""Puts tilewright into a model, or into all models of a family, and takes it out again."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch

from tilewright.hf._forms import FAMILIES, Family, replacement_of, rotations_in
from tilewright.hf._replacements import activation_of, has_operator

_MISSING = object()
_ALREADY = "it is tilewright's already"


class Patch:
    """What was replaced, and what was not and why; `undo`, or the end of its block, reverts it."""

    def __init__(self) -> None:
        """Nothing is replaced yet."""
        self.replaced: dict[str, list[str]] = {}
        self.skipped: dict[str, str] = {}
        self._undo: list[Callable[[], None]] = []

    def __str__(self) -> str:
        """A line per kind, and one per thing that stayed."""
        lines = [f"{kind}: {len(names)} replaced" for kind, names in self.replaced.items()]
        lines += [f"{name}: not replaced: {reason}" for name, reason in self.skipped.items()]
        return "\n".join(lines)

    def __enter__(self) -> Patch:
        """The patch, which is in effect already."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Reverts it."""
        self.undo()

    def undo(self) -> None:
        """Reverts it; a second time does nothing."""
        while self._undo:
            self._undo.pop()()

    def put(self, kind: str, name: str, owner: Any, attribute: str, value: Any) -> None:
        """Sets an attribute until the patch is undone."""
        before = vars(owner).get(attribute, _MISSING)

        def restore() -> None:
            if before is _MISSING:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, before)

        setattr(owner, attribute, value)
        self._undo.append(restore)
        self.replaced.setdefault(kind, []).append(name)

    def on_undo(self, kind: str, name: str, revert: Callable[[], None]) -> None:
        """Notes something that was replaced already."""
        self._undo.append(revert)
        self.replaced.setdefault(kind, []).append(name)


def _with_rope(forward: Any) -> Callable[..., Any] | None:
    """The attention layer's forward, calling another rotation; None if it calls none known."""
    rotations = rotations_in(forward)
    if not rotations:
        return None
    scope = {**forward.__globals__, **rotations}
    out = types.FunctionType(
        forward.__code__, scope, forward.__name__, forward.__defaults__, forward.__closure__
    )
    out.__kwdefaults__ = forward.__kwdefaults__
    return out


class _Rotated:
    """An attention layer's forward with another rotation; it can be copied and pickled with it."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._forward = cast(Callable[..., Any], _with_rope(type(module).forward))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer returns."""
        return self._forward(self._module, *args, **kwargs)

    def __reduce__(self) -> tuple[type[_Rotated], tuple[torch.nn.Module]]:
        """Made anew, since its function is in no module."""
        return _Rotated, (self._module,)


_KINDS = {"RMSNorm": "rms_norm", "MLP": "swiglu", "Attention": "rope"}


def _candidates(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module, str]]:
    """Modules that may be replaced, and as what."""
    for name, module in model.named_modules():
        for suffix, kind in _KINDS.items():
            if type(module).__name__.endswith(suffix):
                yield name, module, kind


def _replacement(module: torch.nn.Module, kind: str) -> tuple[Callable[..., Any] | None, str]:
    """The forward for a module, or the reason why there is none."""
    cls = type(module)
    if "forward" in vars(module):
        return None, "its forward is replaced already"
    if kind == "rope":
        rotated = _Rotated(module) if rotations_in(cls.forward) else None
        return rotated, f"{cls.__name__} calls no rotation of a known form"
    found = replacement_of(kind, cls)
    if found is None:
        return None, f"{cls.__name__} computes something of no known form"
    if kind == "swiglu" and not has_operator(module):
        return None, f"there is no operator for {activation_of(module)!r}"
    return functools.partial(found, module), ""


def _patch_attention(patch: Patch, model: Any) -> None:
    before = getattr(getattr(model, "config", None), "_attn_implementation", None)
    if before == "tilewright":
        patch.skipped["attn"] = _ALREADY
        return
    kinds = ("attention_backend", "sdpa", "flash_attn", "flex_attn")
    has_attention = any(getattr(model, f"_supports_{kind}", False) for kind in kinds)
    if not hasattr(model, "set_attn_implementation") or before is None or not has_attention:
        patch.skipped["attn"] = "the model has no attention interface"
        return
    model.set_attn_implementation("tilewright")
    if model.config._attn_implementation != "tilewright":
        patch.skipped["attn"] = f"{type(model).__name__} keeps {before!r}"
        return
    patch.on_undo("attn", before, lambda: model.set_attn_implementation(before))


def patch(
    model: torch.nn.Module,
    *,
    rope: bool = True,
    rms_norm: bool = True,
    swiglu: bool = True,
    attn: bool = True,
) -> Patch:
    """Replaces parts of one model's computation; parameters and modules stay as they are.

    Args:
        model: a model of transformers; what is recognised by its code is replaced.
        rope: whether to replace the rotation of queries and keys.
        rms_norm: whether to replace normalization.
        swiglu: whether to replace the gate of feed-forward layers.
        attn: whether to replace attention.

    Returns:
        What was replaced and what was not; undoes it.

    Raises:
        TypeError: it is no model.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"patch: model is {model!r}, but a module is needed; patch_family takes names"
        )
    wanted = {"rope": rope, "rms_norm": rms_norm, "swiglu": swiglu}
    out = Patch()
    for name, module, kind in _candidates(model):
        if not wanted[kind]:
            continue
        forward, reason = _replacement(module, kind)
        if forward is None:
            out.skipped[f"{name} ({kind})"] = reason
        else:
            out.put(kind, name, module, "forward", forward)
    if attn:
        _patch_attention(out, model)
    for kind, is_wanted in {**wanted, "attn": attn}.items():
        if not is_wanted:
            out.skipped[kind] = "not asked for"
    return out


def _prefer_tilewright(original: Callable[..., str]) -> Callable[..., str]:
    def get_correct_attn_implementation(
        self: Any, requested_attention: str | None, is_init_check: bool = False
    ) -> str:
        """The attention function of a new model: "tilewright" unless another is asked for."""
        return original(self, requested_attention or "tilewright", is_init_check)

    return get_correct_attn_implementation


def _is_ours(function: Any) -> bool:
    """Whether a patch has put it where it is."""
    return str(getattr(function, "__module__", "")).startswith("tilewright.")


def _family(name: str) -> Family:
    """A family of transformers with parts that are known.

    Raises:
        ValueError: there is no such family.
    """
    family, known = Family(name), False
    with contextlib.suppress(ImportError):
        known = any(
            _is_ours(cls.forward) or replacement_of(kind, cls)
            for suffix, kind in _KINDS.items()
            for cls in (family.classes(suffix) if kind != "rope" else ())
        )
    if not known:
        raise ValueError(
            f"no family {name!r}; there are {', '.join(FAMILIES)}, and others like them"
        )
    return family


def patch_family(
    name: str,
    *,
    rope: bool = True,
    rms_norm: bool = True,
    swiglu: bool = True,
    attn: bool = True,
) -> Patch:
    """As `patch`, for the code of a family: all its models, also those made later.

    `attn` makes "tilewright" the default of models that are made later.

    Raises:
        ValueError: there is no such family.
    """
    family, out = _family(name), Patch()
    wanted = {"rms_norm": rms_norm, "swiglu": swiglu}
    for suffix, kind in _KINDS.items():
        for cls in family.classes(suffix) if wanted.get(kind) else ():
            found = replacement_of(kind, cls)
            if found is not None:
                out.put(kind, cls.__name__, cls, "forward", found)
            else:
                reason = _ALREADY if _is_ours(cls.forward) else "it is of no known form"
                out.skipped[f"{cls.__name__} ({kind})"] = reason
    module = family.module()
    for function, value in list(vars(module).items()) if rope else ():
        rotation = replacement_of("rope", value)
        if rotation is not None and not isinstance(value, type):
            out.put("rope", function, module, function, rotation)
        elif _is_ours(value):
            out.skipped[f"{function} (rope)"] = _ALREADY
    for base in family.classes("PreTrainedModel") if attn else ():
        if _is_ours(base.get_correct_attn_implementation):
            out.skipped["attn"] = _ALREADY
        elif base._supports_attention_backend:
            chosen = _prefer_tilewright(base.get_correct_attn_implementation)
            out.put("attn", base.__name__, base, "get_correct_attn_implementation", chosen)
        else:
            out.skipped["attn"] = f"{base.__name__} has no attention interface"
    for kind, is_wanted in {
        "rope": rope, "rms_norm": rms_norm, "swiglu": swiglu, "attn": attn
    }.items():  # fmt: skip
        if not is_wanted:
            out.skipped[kind] = "not asked for"
    return out

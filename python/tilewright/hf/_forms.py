"""Which functions of transformers compute what: recognised by their code, whatever model has them.

The models of transformers are written out one by one, mostly with the same code. A function stands
for another when its instructions are the same, and those of the functions that it calls beside it;
names of local variables do not matter.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import importlib
from collections.abc import Callable, Hashable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from tilewright.hf import _replacements as own

# transformers' function (module and class of the models, or function) and what replaces it.
_NORMS: dict[tuple[str, str], Callable[..., Any]] = {
    ("llama", "LlamaRMSNorm"): own.rms_norm,
    ("gemma3", "Gemma3RMSNorm"): own.rms_norm_plus_one,
    ("olmo2", "Olmo2RMSNorm"): own.rms_norm_in_float,
    ("nemotron_h", "NemotronHRMSNorm"): own.rms_norm_in_float,
}
_GATED_LAYERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("llama", "LlamaMLP"): own.gated_layer,
    ("phi3", "Phi3MLP"): own.joint_gated_layer,
}
_ROTATIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("llama", "apply_rotary_pos_emb"): own.apply_rotary_pos_emb,
    ("phi3", "apply_rotary_pos_emb"): own.apply_rotary_pos_emb,
    ("gpt_neox", "apply_rotary_pos_emb"): own.apply_rotary_pos_emb,
    ("olmo2", "apply_rotary_pos_emb"): own.apply_rotary_pos_emb,
    ("gpt_oss", "apply_rotary_pos_emb"): own.apply_half_tables,
    ("glm", "apply_rotary_pos_emb"): own.apply_to_neighbours,
    ("cohere", "apply_rotary_pos_emb"): own.apply_repeated_tables,
    ("deepseek_v3", "apply_rotary_pos_emb_interleave"): own.apply_to_neighbours_apart,
    ("deepseek_v2", "apply_rotary_emb"): own.apply_rotary_emb,
}


_DEPTH = 3  # of calls that are looked into


def _form(function: Any, methods: Mapping[str, Any], depth: int = _DEPTH) -> Hashable:
    """What a function does, as far as its instructions say; None for what has none."""
    if not isinstance(function, FunctionType):
        return None
    code, scope = function.__code__, {**function.__globals__, **methods}
    # Local variables by their place; everything else by what is meant.
    steps = tuple(
        (step.opname, step.arg if "FAST" in step.opname else repr(step.argval))
        for step in dis.get_instructions(code)
    )
    called = [
        (name, value)
        for name, value in ((name, scope.get(name)) for name in code.co_names)
        if isinstance(value, FunctionType) and value.__module__ == function.__module__
    ]
    inner = tuple((name, _form(value, methods, depth - 1)) for name, value in called if depth)
    return steps, inner, repr(function.__defaults__)


@functools.cache
def _known(kind: str) -> dict[Hashable, Callable[..., Any]]:
    """Replacements by form, as far as the installed transformers has their models."""
    tables: dict[str, dict[tuple[str, str], Callable[..., Any]]] = {
        "rms_norm": _NORMS, "swiglu": _GATED_LAYERS, "rope": _ROTATIONS
    }  # fmt: skip
    table = tables[kind]
    out: dict[Hashable, Callable[..., Any]] = {}
    for (model, name), replacement in table.items():
        try:
            module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
            found = getattr(module, name)
        except (ImportError, AttributeError):
            continue
        out[form_of(found)] = replacement
    out.pop(None, None)
    return out


def form_of(code: Any) -> Hashable:
    """The form of a function, or of a class's forward."""
    if not isinstance(code, type):
        return _form(code, {})
    methods: dict[str, Any] = {}
    for base in reversed(code.__mro__):
        if not base.__module__.startswith("torch."):
            methods |= vars(base)
    return _form(methods.get("forward"), methods)


def replacement_of(kind: str, code: Any) -> Callable[..., Any] | None:
    """What replaces a class's forward ("rms_norm", "swiglu") or a function ("rope"), if known."""
    form = form_of(code)
    return None if form is None else _known(kind).get(form)


def rotations_in(function: Any) -> dict[str, Callable[..., Any]]:
    """The rotations that a function calls by name, and what replaces them."""
    if not isinstance(function, FunctionType):
        return {}
    out = {}
    for name in function.__code__.co_names:
        called = function.__globals__.get(name)
        found = isinstance(called, FunctionType) and replacement_of("rope", called)
        if found:
            out[name] = found
    return out


@dataclasses.dataclass(frozen=True)
class Family:
    """The code of one family of models."""

    name: str

    def module(self) -> ModuleType:
        """Its code."""
        return importlib.import_module(f"transformers.models.{self.name}.modeling_{self.name}")

    def classes(self, suffix: str) -> list[Any]:
        """Its own classes whose names end so."""
        home = self.module()
        return [
            value
            for name, value in vars(home).items()
            if isinstance(value, type)
            and value.__module__ == home.__name__
            and name.endswith(suffix)
        ]


# Those that are shown to work as a whole; others are patched as far as their code is known.
FAMILIES = {
    name: Family(name)
    for name in ("llama", "qwen2", "qwen3", "mistral", "gemma3", "phi3", "deepseek_v2")
}

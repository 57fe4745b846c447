"""TileOPs' operators as classes by family: parameters at construction, tensors by call."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tilewright.compat import (
    _tileops_expert_layouts,
    _tileops_targets,
    _tileops_unified,
    _tileops_unified_experts,
    _tileops_unified_states,
)
from tilewright.compat._coverage import provided
from tilewright.compat._paths import also_at
from tilewright.compat._tileops_class_names import ADDED, DEFAULTS, FAMILIES, RENAMED, refused
from tilewright.compat._tileops_targets import is_known

_UNIFIED = {
    name: vars(module)[name]
    for module in (_tileops_unified, _tileops_unified_experts, _tileops_unified_states)
    for name in provided(vars(module))
}
_SETTINGS = {"target": None, "kernel_map": None, "tune": False}
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)


class Op:
    """An operator: its parameters are told once, its tensors at each call.

    `target` names whose kernels run it, of which there are tilewright's; `kernel_map` and `tune`
    are about TileOPs' own and change nothing, nor does asking for tuning.
    """

    function: ClassVar[Callable[..., Any]]
    operators: ClassVar[tuple[str, ...]]
    parameters: ClassVar[inspect.Signature]
    compile_op_names: ClassVar[tuple[str, ...]] = ()

    # What the function calls parameters that have another name here, and the places of tensors
    # that may be left out although the function takes them always.
    _own_names: ClassVar[Mapping[str, str]] = {}
    _optional: ClassVar[Mapping[str, int]] = {}

    def __init__(self, *positional: Any, **named: Any) -> None:
        """Keeps the parameters, each of which is an attribute, too."""
        name, own = type(self).__name__, self._own_names
        here = {ours: theirs for theirs, ours in own.items()}
        try:
            bound = self.parameters.bind(
                *positional, **{here.get(key, key): x for key, x in named.items()}
            )
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        bound.apply_defaults()
        settings = {key: bound.arguments.pop(key) for key in _SETTINGS}
        if not is_known(settings["target"]):
            raise ValueError(f"{name}: there is no target {settings['target']!r}")
        self.__dict__.update(bound.arguments, target=settings["target"])
        reason = refused(self.function.__name__, bound.arguments)
        if reason:
            raise ValueError(f"{name}: {reason}")
        added = ADDED.get(self.function.__name__, ())
        self.options = {own.get(k, k): x for k, x in bound.arguments.items() if k not in added}

    def forward(self, *tensors: Any, **named: Any) -> Any:
        """Runs the operator."""
        given = {self._own_names.get(key, key): x for key, x in named.items()}
        for key, place in self._optional.items():
            if place >= len(tensors):
                given.setdefault(key, None)
        return type(self).function(*tensors, **given, **self.options)

    def __call__(self, *tensors: Any, **named: Any) -> Any:
        """As forward."""
        return self.forward(*tensors, **named)

    def request_tune(self) -> None:
        """Does nothing: tilewright's kernels are tuned already."""

    autotune = request_tune

    def kernel_config(self) -> dict[str, Any] | None:
        """None: kernels tell nothing of their configuration."""
        return None

    def eval_roofline(self) -> tuple[int, int]:
        """Refuses: the catalog does not tell operators' costs to Python."""
        raise NotImplementedError(f"{type(self).__name__}: eval_roofline knows no cost")


def _snake(name: str) -> str:
    """RMSNorm as rms_norm."""
    plain = name.replace("MoE", "Moe").replace("RoPE", "Rope")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).lower()


def _parameters(function: Callable[..., Any], renamed: Mapping[str, str]) -> inspect.Signature:
    """Those that are not tensors, first the ones that must be given; then what TileOPs adds."""
    of = function.__name__
    defaults = DEFAULTS.get(of, {})
    own = [
        p.replace(
            name=renamed.get(p.name, p.name),
            kind=inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=defaults.get(p.name, p.default),
            annotation=inspect.Parameter.empty,
        )
        for p in inspect.signature(function).parameters.values()
        if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name != "out"
    ]
    own.sort(key=lambda p: p.default is not inspect.Parameter.empty)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in (*ADDED.get(of, {}).items(), *_SETTINGS.items())
    ]
    return inspect.Signature([*own, *added])


def _tensors(function: Callable[..., Any], renamed: Mapping[str, str]) -> inspect.Signature:
    """The tensors of a call; last ones that may be None may be left out."""
    taken: list[inspect.Parameter] = []
    may_be_left_out = True
    for p in reversed(list(inspect.signature(function).parameters.values())):
        if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name != "out":
            continue
        default = p.default
        if default is p.empty and p.name != "out":
            may_be_left_out &= "None" in str(p.annotation)
            default = None if may_be_left_out else default
        taken.insert(0, p.replace(name=renamed.get(p.name, p.name), default=default))
    return inspect.Signature(taken)


def _stated(method: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """The method of Op with the parameters that one class takes."""

    def stated(self: Op, *positional: Any, **named: Any) -> Any:
        return method(self, *positional, **named)

    stated.__name__, stated.__doc__ = method.__name__, method.__doc__
    taken = [_SELF, *signature.parameters.values()]
    stated.__dict__["__signature__"] = inspect.Signature(taken)
    return stated


def _class(name: str, function: Callable[..., Any]) -> type[Op]:
    renamed = RENAMED.get(function.__name__, {})
    parameters, tensors = _parameters(function, renamed), _tensors(function, renamed)
    given = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    body = {
        "__doc__": f"{function.__name__} as a class: {(function.__doc__ or '').splitlines()[0]}",
        "__init__": _stated(Op.__init__, parameters),
        "forward": _stated(Op.forward, tensors),
        "parameters": parameters,
        "function": staticmethod(function),
        "operators": function.__dict__["operators"],
        "compile_op_names": tuple(f"tilewright::{op}" for op in function.__dict__["operators"]),
        "_own_names": {theirs: ours for ours, theirs in renamed.items()},
        "_optional": {
            p.name: place
            for place, (p, q) in enumerate(zip(given, tensors.parameters.values(), strict=False))
            if p.default is p.empty and q.default is None
        },
    }
    return type(name, (Op,), body)


def _named(stem: str) -> str:
    return f"{stem}Op" if stem.endswith("Bwd") else f"{stem}FwdOp"


def classes(functions: Mapping[str, Any]) -> dict[str, dict[str, type[Op]]]:
    """The classes of each family, each served by one of these functions."""
    made: dict[str, dict[str, type[Op]]] = {}
    served = {**functions, **_UNIFIED}
    for family, names in FAMILIES.items():
        of_family = made.setdefault(family, {})
        for entry in names.split():
            stems, _, function = entry.partition("=")
            every = stems.split("|")
            key = function or next(k for k in map(_snake, every) if k in served)
            cls = _class(_named(every[0]), served[key])
            of_family.update(dict.fromkeys(map(_named, every), cls))
    repack = {"GEMMW4A16FwdOp": "repack_w4a16", "GEMMW4A8FwdOp": "repack_w4a8"}
    for name, function in repack.items():
        made["gemm"][name].repack = staticmethod(served[function])  # type: ignore[attr-defined]
    return made


def install(parent: str, functions: Mapping[str, Any]) -> None:
    """Makes parent.FAMILY and parent.ops, with parent.ops.FAMILY, modules of classes.

    Also parent.backend, whose names parent has, too.
    """
    whole = types.ModuleType(f"{parent}.ops", "TileOPs' operators as classes.")
    whole.__dict__.update(Op=Op, MISSING={})
    sys.modules[whole.__name__] = whole
    sys.modules[parent].__dict__["ops"] = whole
    for family, made in classes(functions).items():
        module = types.ModuleType(f"{parent}.{family}", f"TileOPs' operators of {family}.")
        for cls in made.values():
            cls.__module__ = module.__name__
        module.__dict__.update(made)
        whole.__dict__.update(made)
        sys.modules[module.__name__] = module
        also_at(module.__name__, f"{whole.__name__}.{family}")
        if not hasattr(sys.modules[parent], family):  # a function of the family's name stays
            setattr(sys.modules[parent], family, module)
    contracts = {n: c for n, c in vars(_tileops_expert_layouts).items() if isinstance(c, type)}
    sys.modules[f"{parent}.moe"].__dict__.update(contracts)
    targets = {name: vars(_tileops_targets)[name] for name in _tileops_targets.PUBLIC}
    sys.modules[parent].__dict__.update(targets)
    also_at(_tileops_targets.__name__, f"{parent}.backend")

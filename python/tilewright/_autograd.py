"""Gradients of torch.ops.tilewright, from the rules that the catalog holds. Imports PyTorch.

A rule names the operators that compute a gradient (tilewright/ops/core/gradient.h). Here it becomes
a torch.autograd.Function, registered as the operator's Autograd kernel: it keeps the tensors that
the wanted gradients need and no others, and computes only those. Since gradients are operators,
they are differentiated by their own rules; one without a rule says so when it is reached.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _C

from tilewright import _schema
from tilewright._schema import Argument, Operator, Step, Value

_Tensors = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What one set of wanted gradients takes."""

    steps: tuple[Step, ...]
    saved: tuple[str, ...]  # tensors that are kept
    shapes: tuple[str, ...]  # tensors of which the shape is kept
    wanted: frozenset[str]  # what the steps are for, what they pass on included
    missing: str  # the first argument that has no gradient, or nothing


class _Rule:
    """The gradient of one operator."""

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.steps = op.gradient.steps if op.gradient else ()
        self.conditions = op.gradient.conditions if op.gradient else {}
        self.arguments = {arg.name: arg for arg in op.arguments}
        self.tensors = {arg.name for arg in op.arguments if arg.kind == "tensor"}
        self.defaults = [arg.default_value for arg in op.inputs]
        used = {(value.name, value.grad) for step in self.steps for value in step.inputs}
        self.uses_optional_output = any((a.name, False) in used for a in op.outputs if a.optional)
        self.grads = [arg.name for arg in op.outputs if (arg.name, True) in used]
        self.results = {name for step in self.steps for name in step.results}

    @functools.cache  # noqa: B019 - rules live as long as the process
    def plan(self, needed: tuple[bool, ...]) -> _Plan:
        """The steps for the inputs that need a gradient."""
        names = [a.name for a, needs in zip(self.op.inputs, needed, strict=False) if needs]
        missing = next((name for name in names if f"{name}.grad" not in self.results), "")
        wanted = {f"{name}.grad" for name in names}
        steps: list[Step] = []
        for step in reversed(self.steps):
            if wanted.isdisjoint(step.results):
                continue
            steps.insert(0, step)
            wanted |= {value.name + ".grad" * value.grad for value in step.inputs}
        values = [value for step in steps for value in step.inputs if value.name in self.tensors]
        saved = {value.name for value in values if not value.grad and not value.shape}
        shapes = {value.name for value in values if value.shape} | set(names)
        if len(self.grads) > 1:
            shapes |= set(self.grads)
        return _Plan(
            steps=tuple(steps),
            saved=tuple(sorted(saved)),
            shapes=tuple(sorted(shapes)),
            wanted=frozenset(wanted),
            missing=missing,
        )

    def why_not(self, plan: _Plan, arguments: _Tensors) -> str:
        """Why there is no gradient for these arguments; nothing, if there is one."""
        if plan.missing:
            return f"{self.op.name} has no gradient for {plan.missing}"
        for name, value in self.conditions.items():
            given = "absent" if arguments[name] is None else str(arguments[name]).lower()
            if self.arguments[name].kind == "tensor" and given != "absent":
                given = "given"
            if given != value:
                return f"{self.op.name} has no gradient where {name} is {given}"
        return ""


def _zeros(kept: tuple[Any, Any, Any]) -> torch.Tensor:
    shape, dtype, device = kept
    return torch.zeros(shape, dtype=dtype, device=device)


def _like(kept: tuple[Any, Any, Any]) -> torch.Tensor:
    """A tensor of this shape, without memory for it."""
    shape, dtype, device = kept
    return torch.empty((), dtype=dtype, device=device).expand(shape)


def _evaluate(value: Value, to: Argument, env: _Tensors, shapes: _Tensors) -> Any:
    """What a step passes to argument `to`."""
    if not value.name:
        return float(value.number) if to.kind == "float" else int(value.number)
    if value.shape:
        return _like(shapes[value.name])
    name = value.name + ".grad" * value.grad
    found = env[name]
    if found is None and value.grad and not to.optional:
        found = _zeros(shapes[value.name])
    if value.negated:
        return not found
    if found is not None and value.matrix:
        found = found.reshape(1, math.prod(found.shape[:-1]), found.shape[-1])
    return found.transpose(-1, -2) if found is not None and value.transposed else found


def _run(step: Step, wanted: frozenset[str], env: _Tensors, shapes: _Tensors) -> None:
    """Adds the results of a step to what there is."""
    if not step.op:
        env[step.results[0]] = env[step.inputs[0].name + ".grad" * step.inputs[0].grad]
        return
    called = _schema.find(step.op)
    given = {value.parameter: value for value in step.inputs}
    arguments = [
        _evaluate(given[arg.name], arg, env, shapes) if arg.name in given else arg.default_value
        for arg in called.inputs
    ]
    packet = getattr(torch.ops.tilewright, step.op)
    outputs = list(zip(called.outputs, step.results, strict=False))
    full = any(arg.optional and name in wanted for arg, name in outputs)
    made = (packet.full if full else packet.default)(*arguments)
    made = made if isinstance(made, tuple) else (made,)
    names = [name for arg, name in outputs if full or not arg.optional]
    matrix = any(value.matrix for value in step.inputs)
    for name, result in zip(names, made, strict=False):
        argument = name.removesuffix(".grad")
        env[name] = result
        if matrix and argument in shapes:
            env[name] = result.reshape(shapes[argument][0])


def _backward(rule: _Rule, ctx: Any, grads: Sequence[torch.Tensor | None]) -> list[Any]:
    """The gradients of all inputs, by the plan that forward made."""
    plan, arguments, shapes = ctx.plan, ctx.arguments, ctx.shapes
    if all(grad is None for grad in grads):
        return [None] * len(ctx.needs_input_grad)
    if reason := rule.why_not(plan, arguments):
        raise NotImplementedError(f"{reason}\n  in {rule.op.schema}")
    if rule.uses_optional_output and torch.is_grad_enabled():
        raise NotImplementedError(f"{rule.op.name} cannot be differentiated twice")
    env = {**arguments, **dict(zip(plan.saved, ctx.saved_tensors, strict=True))}
    env |= {f"{a.name}.grad": grad for a, grad in zip(rule.op.outputs, grads, strict=False)}
    needs = ctx.needs_input_grad
    for step in plan.steps:
        _run(step, plan.wanted, env, shapes)
    out: list[Any] = []
    for arg, need in zip(rule.op.inputs, needs, strict=False):
        grad = env[f"{arg.name}.grad"] if need else None
        if grad is not None and arg.dims == ("...",):
            grad = grad.sum_to_size(shapes[arg.name][0])
        out.append(grad)
    return out


def _keep(ctx: Any, rule: _Rule, given: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Keeps what the backward of this call needs."""
    op = rule.op
    plan = rule.plan(tuple(ctx.needs_input_grad))
    inputs = [*given, *rule.defaults[len(given) :]]
    tensors = {arg.name: value for arg, value in zip(op.inputs, inputs, strict=True)}
    tensors |= {arg.name: value for arg, value in zip(op.outputs, outputs, strict=False)}
    ctx.plan = plan
    ctx.shapes = {
        name: (tensors[name].shape, tensors[name].dtype, tensors[name].device)
        for name in plan.shapes
    }
    ctx.save_for_backward(*(tensors[name] for name in plan.saved))
    # Tensors may be kept in `saved` alone: here, whether they were given.
    ctx.arguments = {
        arg.name: True if isinstance(value, torch.Tensor) else value
        for arg, value in zip(op.inputs, inputs, strict=True)
    }


def _function(rule: _Rule, overload: Any, full: Any) -> type[torch.autograd.Function]:
    """The autograd.Function of one overload; `full` returns all outputs."""
    op = rule.op
    returned = op.outputs if overload is full else op.required_outputs
    run = full if rule.uses_optional_output else overload
    some_outputs = [arg for arg in op.outputs if run is full or not arg.optional]

    def forward(ctx: Any, *given: Any) -> Any:
        with _C._AutoDispatchBelowAutograd():
            made = run(*given)
        made = made if isinstance(made, tuple) else (made,)
        by_name = {arg.name: value for arg, value in zip(some_outputs, made, strict=True)}
        _keep(ctx, rule, given, [by_name.get(arg.name) for arg in op.outputs])
        results = tuple(by_name[arg.name] for arg in returned)
        constant = [
            value
            for arg, value in zip(returned, results, strict=True)
            if not value.is_floating_point() or (rule.steps and arg.name not in rule.grads)
        ]
        ctx.mark_non_differentiable(*constant)
        ctx.set_materialize_grads(False)
        return results[0] if len(results) == 1 else results

    def backward(ctx: Any, *grads: Any) -> Any:
        return tuple(_backward(rule, ctx, _by_output(op, returned, grads)))

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"{op.name}_gradient", (torch.autograd.Function,), members)


def _by_output(op: Operator, returned: Sequence[Argument], grads: Sequence[Any]) -> list[Any]:
    by_name = {arg.name: grad for arg, grad in zip(returned, grads, strict=True)}
    return [by_name.get(arg.name) for arg in op.outputs]


def _kernel(overload: Any, function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """What PyTorch calls: records only if something requires a gradient."""
    apply = function.apply

    def kernel(*given: Any) -> Any:
        if _C.is_grad_enabled() and _C._any_requires_grad(*given):
            return apply(*given)
        with _C._AutoDispatchBelowAutograd():
            return overload(*given)

    return kernel


def _kernel_out(op: Operator, overload: Any) -> Callable[..., Any]:
    def kernel(*given: Any, **named: Any) -> Any:
        if _C.is_grad_enabled() and _C._any_requires_grad(*given, *named.values()):
            raise RuntimeError(
                f"{op.name}: a tensor requires a gradient, but results written to given tensors "
                "have none"
            )
        with _C._AutoDispatchBelowAutograd():
            return overload(*given, **named)

    return kernel


_kept: list[Any] = []


@functools.cache
def register() -> None:
    """Gives every operator its gradient; called once, when the binding is loaded."""
    library = torch.library.Library("tilewright", "FRAGMENT")
    _kept.append(library)  # whose end would unregister everything
    for op in _schema.operators().values():
        packet = getattr(torch.ops.tilewright, op.name)
        library.impl(f"{op.name}.out", _kernel_out(op, packet.out), "Autograd")
        rule = _Rule(op)
        has_full = len(op.required_outputs) != len(op.outputs)
        full = packet.full if has_full else packet.default
        for overload in {packet.default, full}:
            name = op.name if overload is packet.default else f"{op.name}.full"
            function = _function(rule, overload, full)
            library.impl(name, _kernel(overload, function), "Autograd")

"""Gradients of torch.ops.tilewright, from the rules that the catalog holds. Imports PyTorch.

A rule names the operators that compute a gradient (tilewright/ops/core/gradient.h). Here it becomes
a torch.autograd.Function, registered as the operator's Autograd kernel: it keeps the tensors that
the wanted gradients need and no others, and computes only those. Since gradients are operators,
they are differentiated by their own rules; one without a rule says so when it is reached.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _C
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from tilewright import _explain, _schema
from tilewright._in_steps import IN_STEPS
from tilewright._rules import Plan, Rule
from tilewright._schema import Argument, Operator, Step, Value
from tilewright._second import SECOND

_Tensors = dict[str, Any]
_CHANGES = ("shape", "negated", "inverse", "matrix", "transposed")  # by a step, of what it is given


def _zeros(kept: tuple[Any, Any, Any]) -> torch.Tensor:
    shape, dtype, device = kept
    return torch.zeros(shape, dtype=dtype, device=device)


def _like(kept: tuple[Any, Any, Any]) -> torch.Tensor:
    """A tensor of this shape, without memory for it."""
    shape, dtype, device = kept
    return torch.empty((), dtype=dtype, device=device).expand(shape)


def _shape(name: str, env: _Tensors) -> Any:
    """The sizes of a tensor of the forward pass, by what was kept."""
    if name + ".shape" in env:
        return env[name + ".shape"]
    return env[name + ".like"][0] if name + ".like" in env else env[name].shape


def _evaluate(value: Value, to: Argument, env: _Tensors) -> Any:
    """What a step passes to argument `to`."""
    if not value.name:
        return int(value.number) if to.kind == "int" else float(value.number)
    if value.shape:
        return _like(env[value.name + ".like"])
    found = env[value.key]
    if found is None and value.grad and not to.optional:
        found = _zeros(env[value.name + ".like"])
    if value.negated:
        return not found
    if value.inverse:
        return sorted(range(len(found)), key=found.__getitem__)
    if found is not None and value.matrix:
        found = found.reshape(1, math.prod(found.shape[:-1]), found.shape[-1])
    return found.transpose(-1, -2) if found is not None and value.transposed else found


def _number_like(number: float, arg: Argument, called: Operator, arguments: list[Any]) -> Any:
    """A tensor of one number that broadcasts, of the dtype of an argument of the same type."""
    for other, value in zip(called.inputs, arguments, strict=True):
        if other.type == arg.type and isinstance(value, torch.Tensor):
            return value.new_full((1,), number)
    raise ValueError(f"{called.name}: no other argument has the dtype of {arg.name}")


def _is_one(grad: Any) -> bool:
    """Whether a gradient is the number 1, if that can be told without waiting and untraced."""
    if type(grad) is not torch.Tensor or grad.numel() != 1 or grad.device.type != "cpu":
        return False
    traced = _C._are_functorch_transforms_active() or _C._len_torch_dispatch_stack()
    return not traced and grad.item() == 1


def _place(rule: Rule, value: Value | None, to: Argument) -> str:
    """The name of what argument `to` of a step takes as it is; nothing, if something is done."""
    if value is None or any(getattr(value, change) for change in _CHANGES):
        return ""
    if value.grad and len(rule.op.outputs) > 1 and not to.optional:
        return ""  # there may be none
    return value.key


def _call(rule: Rule, plan: Plan, step: Step) -> Callable[[_Tensors], None]:
    """What adds the results of a step to what there is."""
    if not step.op:
        (result,), first = step.results, step.inputs[0]
        passed = first.key
        return lambda env: env.update({result: env[passed]})
    called = _schema.find(step.op)
    given = {value.parameter: value for value in step.inputs}
    parts = [
        (_place(rule, given.get(arg.name), arg), given.get(arg.name), arg, arg.default_value)
        for arg in called.inputs
    ]
    numbers = [
        i for i, (_, v, arg, _) in enumerate(parts) if v and not v.name and arg.kind == "tensor"
    ]
    is_scaled = step.op == "mul" and given["x"].name in rule.kept
    packet = getattr(torch.ops.tilewright, step.op)
    outputs = list(zip(called.outputs, step.results, strict=False))
    full = any(arg.optional and name in plan.wanted for arg, name in outputs)
    run = packet.full if full else packet.default
    below = _below_autograd(run._op)
    names = [name for arg, name in outputs if full or not arg.optional]
    reshaped = plan.asked if any(value.matrix for value in step.inputs) else frozenset()

    def call(env: _Tensors) -> None:
        arguments = [
            env[place] if place else _evaluate(value, arg, env) if value else default
            for place, value, arg, default in parts
        ]
        for i in numbers:
            arguments[i] = _number_like(arguments[i], called.inputs[i], called, arguments)
        if is_scaled and _is_one(arguments[1]):
            env[step.results[0]] = arguments[0]  # of loss.backward(): large as a weight, not copied
            return
        made = (below if _is_plain() else run)(*arguments)
        for name, result in zip(names, made if isinstance(made, tuple) else (made,), strict=False):
            of = name.removesuffix(".grad")
            env[name] = result.reshape(_shape(of, env)) if name in reshaped else result

    return call


def _is_plain() -> bool:
    """Whether an operator's Autograd kernel, which is Python, would do no more than call it."""
    recorded = _C.is_grad_enabled() or forward_ad._current_level >= 0 or _explain.timed
    return not (recorded or _C._are_functorch_transforms_active())


@functools.cache
def _calls(rule: Rule, needed: tuple[bool, ...]) -> list[Callable[[_Tensors], None]]:
    plan = rule.plan(needed)
    return [_call(rule, plan, step) for step in plan.steps]


def _backward(rule: Rule, ctx: Any, grads: _Tensors) -> list[Any]:
    """The gradients of all inputs, by the plan that forward made, from those of the outputs."""
    needs = ctx.needs_input_grad
    if all(grad is None for grad in grads.values()):
        return [None] * len(needs)
    plan = rule.plan(needs)
    env: _Tensors = dict(zip(plan.kept, ctx.kept, strict=True)) if plan.kept else {}
    if reason := rule.why_not(plan, env):
        raise NotImplementedError(f"{reason}\n  in {rule.op.schema}")
    if rule.is_once and torch.is_grad_enabled():
        raise NotImplementedError(f"{rule.op.name} cannot be differentiated twice")
    env |= zip(plan.saved, ctx.saved_tensors, strict=True)
    env |= grads
    for call in _calls(rule, needs):
        call(env)
    out: list[Any] = []
    for arg, need in zip(rule.op.inputs, needs, strict=False):
        grad = env[f"{arg.name}.grad"] if need else None
        if grad is not None and arg.name in rule.broadcast:
            grad = grad.sum_to_size(_shape(arg.name, env))
        out.append(grad)
    return out


class _Keepers(dict[tuple[bool, ...], Any]):
    """What a recorded call keeps, by which of its arguments need a gradient."""

    def __init__(self, make: Callable[[tuple[bool, ...]], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, needed: tuple[bool, ...]) -> Any:
        made = self[needed] = self._make(needed)
        return made


def _below_autograd(run: Callable[..., Any]) -> Callable[..., Any]:
    """An operator past its Autograd kernel, from which it is called.

    The same as torch._C._AutoDispatchBelowAutograd for the tensors that there are kernels for, at
    less of a cost, which each call has; others (nested ones) come here once more.
    """
    is_excluded = _C._dispatch_tls_is_dispatch_key_excluded
    exclude, guard = _C._dispatch_tls_set_dispatch_key_excluded, _C._AutoDispatchBelowAutograd
    key = _C.DispatchKey.AutogradFunctionality

    def below(*given: Any) -> Any:
        if is_excluded(key):
            with guard():
                return run(*given)
        exclude(key, True)
        try:
            return run(*given)
        finally:
            exclude(key, False)

    return below


def _function(
    rule: Rule, overload: Any, full: Any, transform: bool = False
) -> type[torch.autograd.Function]:
    """The autograd.Function of one overload; `full` returns all outputs.

    Args:
        rule: of the operator.
        overload: that is recorded.
        full: the one that returns all outputs.
        transform: whether it is for a transform of torch.func, below which there may be others.
    """
    op = rule.op
    returned = op.outputs if overload is full else op.required_outputs
    run = full if rule.uses_optional_output else overload
    made_by_run = op.outputs if run is full else op.required_outputs
    if made_by_run != op.outputs[: len(made_by_run)]:
        raise ValueError(f"{op.name}: optional outputs must come last")
    names = [arg.name for arg in made_by_run]
    keepers = _Keepers(lambda needed: rule.keeper(needed, names, len(returned)))
    run_op, below = run._op, _below_autograd(run._op)
    nothing = {f"{arg.name}.grad": None for arg in op.outputs}
    given_grads = [f"{arg.name}.grad" for arg in returned]

    def forward(ctx: Any, *given: Any) -> Any:  # which costs each recorded call: nothing in vain
        return keepers[ctx.needs_input_grad](ctx, given, below(*given))

    def forward_of_transform(ctx: Any, *given: Any) -> Any:
        with torch.enable_grad(), _C._AutoDispatchBelowAutograd():  # for the transforms below
            made = run_op(*given)
        return keepers[ctx.needs_input_grad](ctx, given, made)

    def backward(ctx: Any, *grads: Any) -> Any:
        return tuple(
            _backward(rule, ctx, {**nothing, **dict(zip(given_grads, grads, strict=True))})
        )

    members = {
        "forward": staticmethod(forward_of_transform if transform else forward),
        "backward": staticmethod(backward),
    }
    return type(f"{op.name}_gradient", (torch.autograd.Function,), members)


def _kernel(op: Operator, name: str, overload: Any, rule: Rule, full: Any) -> Callable[..., Any]:
    """What PyTorch calls: records only if something requires a gradient."""
    # Past torch.autograd.Function.apply, which is Python, and dispatches by itself under transforms
    # of torch.func: here they have been told apart already.
    apply, transformed = (
        vars(_C._FunctionBase)["apply"].__get__(None, _function(rule, overload, full, transform))
        for transform in (False, True)
    )

    in_steps = IN_STEPS.get(name) or SECOND.get(name)
    below = _below_autograd(overload._op)

    def kernel(*given: Any) -> Any:
        if _explain.timed:
            _explain.mark(op.name)
        if _C.is_grad_enabled() and _C._any_requires_grad(*given):
            if in_steps is not None and (made := in_steps(*given)) is not None:
                return made
            if not _C._are_functorch_transforms_active():
                return apply(*given)
            _refuse_forward_mode(op)
            with enable_single_level_autograd_function():
                return transformed(*given)
        if forward_ad._current_level >= 0:
            _refuse_tangents(op, given)
        return below(*given)

    return kernel


def _refuse_tangents(op: Operator, given: Sequence[Any]) -> None:
    """Forward mode would lose them without a word."""
    unpack: Callable[..., Any] = forward_ad.unpack_dual
    for value in given:
        if isinstance(value, torch.Tensor) and unpack(value).tangent is not None:
            raise _no_forward_mode(op)


def _refuse_forward_mode(op: Operator) -> None:
    """The same of a gradient within torch.func.jvp, as torch.func.hessian takes it."""
    functorch = _C._functorch
    for transform in functorch.get_interpreter_stack() or ():
        if transform.key() == functorch.TransformType.Jvp:
            raise _no_forward_mode(op)


def _no_forward_mode(op: Operator) -> NotImplementedError:
    hint = "torch.func.jacrev(torch.func.jacrev(f)) makes Hessians without"
    return NotImplementedError(
        f"{op.name} has no derivative in forward mode; {hint}\n  in {op.schema}"
    )


def _kernel_out(op: Operator, overload: Any) -> Callable[..., Any]:
    write = _writer(op, overload)

    def kernel(*given: Any, **named: Any) -> Any:
        if _explain.timed:
            _explain.mark(op.name)
        if _C.is_grad_enabled() and _C._any_requires_grad(*given, *named.values()):
            raise RuntimeError(
                f"{op.name}: a tensor requires a gradient, but results written to given tensors "
                "have none"
            )
        return write(*given, **named)

    return kernel


def _writer(op: Operator, overload: Any) -> Callable[..., Any]:
    """What PyTorch calls where nothing can be differentiated: in and after inference mode."""
    outputs = [arg.name for arg in op.outputs]

    def write(*given: Any, **named: Any) -> Any:
        written = [(name, named[name]) for name in outputs if named.get(name) is not None]
        if not torch.is_inference_mode_enabled():
            for name, value in written:
                if value.is_inference():
                    told = "Inplace update to inference tensor outside InferenceMode is not allowed"
                    raise RuntimeError(f"{op.name}: {name}: {told}\n  in {op.schema}")
        with _C._AutoDispatchBelowADInplaceOrView():
            made = overload(*given, **named)
        # What autograd has kept of these is no longer there.
        torch.autograd.graph.increment_version([value for _, value in written])
        return made

    return write


def register(library: Any) -> None:
    """Gives every operator its gradient, through a torch.library.Library of theirs."""
    for op in _schema.operators().values():
        packet = getattr(torch.ops.tilewright, op.name)
        library.impl(f"{op.name}.out", _kernel_out(op, packet.out), "Autograd")
        library.impl(f"{op.name}.out", _writer(op, packet.out), "ADInplaceOrView")
        rule = Rule(op)
        has_full = len(op.required_outputs) != len(op.outputs)
        full = packet.full if has_full else packet.default
        for overload in {packet.default, full}:
            name = op.name if overload is packet.default else f"{op.name}.full"
            library.impl(name, _kernel(op, name, overload, rule, full), "Autograd")

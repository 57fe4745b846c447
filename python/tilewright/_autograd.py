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
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from tilewright import _explain, _schema
from tilewright._in_steps import IN_STEPS
from tilewright._schema import Argument, Operator, Step, Value
from tilewright._second import SECOND

_Tensors = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What one set of wanted gradients takes. Positions are among inputs and then outputs."""

    steps: tuple[Step, ...]
    saved: tuple[str, ...]  # tensors that are kept
    shapes: tuple[str, ...]  # tensors of which the shape is kept
    keep: Callable[[Any, Sequence[Any], Sequence[Any]], None]  # from inputs and outputs, for ctx
    wanted: frozenset[str]  # what the steps are for, what they pass on included
    missing: str  # the first argument that has no gradient, or nothing


class _Rule:
    """The gradient of one operator."""

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.steps = op.gradient.steps if op.gradient else ()
        self.conditions = op.gradient.conditions if op.gradient else {}
        self.arguments = {arg.name: arg for arg in op.arguments}
        self.tensors = {
            arg.name for arg in op.arguments if arg.kind == "tensor" and not arg.is_int_list
        }
        self.defaults = [arg.default_value for arg in op.inputs]
        used = {(value.name, value.grad) for step in self.steps for value in step.inputs}
        self.uses_optional_output = any((a.name, False) in used for a in op.outputs if a.optional)
        # Such an output has no gradient. A step that uses it and has one itself would lose a part.
        self.kept = {arg.name for arg in op.outputs if arg.optional}
        self.is_once = any(
            bool(step.op) and _schema.find(step.op).gradient is not None
            for step in self.steps
            if any(value.name in self.kept and not value.grad for value in step.inputs)
        )
        self.grads = [arg.name for arg in op.outputs if (arg.name, True) in used]
        self.results = {name for step in self.steps for name in step.results}
        # What a call keeps besides tensors: numbers, and which optional tensors were given.
        places = list(enumerate(op.inputs))
        self.numbers = [i for i, a in places if a.kind != "tensor" or a.is_int_list]
        self.optional = [i for i, a in places if a.kind == "tensor" and a.optional]
        self.plans: dict[tuple[bool, ...], _Plan] = {}

    def plan(self, needed: tuple[bool, ...]) -> _Plan:
        """The steps for the inputs that need a gradient."""
        found = self.plans.get(needed)
        if found is None:
            found = self.plans[needed] = self._make_plan(needed)
        return found

    def _make_plan(self, needed: tuple[bool, ...]) -> _Plan:
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
        saved = tuple(sorted({v.name for v in values if not v.grad and not v.shape}))
        shapes = {value.name for value in values if value.shape}
        if any(value.matrix for step in steps for value in step.inputs):
            shapes |= set(names)
        shapes |= {name for name in names if self.arguments[name].dims == ("...",)}
        if len(self.grads) > 1:
            shapes |= set(self.grads)
        return _Plan(
            steps=tuple(steps),
            saved=saved,
            shapes=tuple(sorted(shapes)),
            keep=self._keeper(saved, sorted(shapes)),
            wanted=frozenset(wanted),
            missing=missing,
        )

    def _keeper(self, saved: Sequence[str], shapes: Sequence[str]) -> Callable[..., None]:
        """What keeps these. Made of text, without a loop: each recorded call runs it."""
        places = {arg.name: f"given[{i}]" for i, arg in enumerate(self.op.inputs)}
        places |= {arg.name: f"outputs[{i}]" for i, arg in enumerate(self.op.outputs)}
        # Tensors may be kept by save_for_backward alone: here, whether they were given.
        there = [f"None if given[{i}] is None else True" for i in self.optional]
        parts = {
            "ctx.save_for_backward(%s)": [places[name] for name in saved],
            "ctx.shapes = [%s]": [f"description({places[name]})" for name in shapes],
            "ctx.optional = [%s]": there,
            "ctx.numbers = [%s]": [f"given[{i}]" for i in self.numbers],
        }
        lines = [line % ", ".join(values) for line, values in parts.items() if values]
        scope: dict[str, Any] = {"description": _description}
        if len(self.op.outputs) > 1:  # else there is a gradient, or no backward
            lines.append("ctx.set_materialize_grads(False)")
        exec("def keep(ctx, given, outputs):\n " + "\n ".join(lines or ["pass"]), scope)
        made: Callable[..., None] = scope["keep"]
        return made

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


def _description(tensor: torch.Tensor) -> tuple[Any, Any, Any]:
    return tensor.shape, tensor.dtype, tensor.device


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
        return int(value.number) if to.kind == "int" else float(value.number)
    if value.shape:
        return _like(shapes[value.name])
    name = value.name + ".grad" * value.grad
    found = env[name]
    if found is None and value.grad and not to.optional:
        found = _zeros(shapes[value.name])
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


def _run(rule: _Rule, step: Step, wanted: frozenset[str], env: _Tensors, shapes: _Tensors) -> None:
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
    for i, arg in enumerate(called.inputs):
        if arg.kind == "tensor" and isinstance(arguments[i], float):
            arguments[i] = _number_like(arguments[i], arg, called, arguments)
    if step.op == "mul" and given["x"].name in rule.kept and _is_one(arguments[1]):
        env[step.results[0]] = arguments[0]  # of loss.backward(): as large as a weight, not copied
        return
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
    plan = rule.plan(ctx.needs_input_grad)
    shapes = dict(zip(plan.shapes, ctx.shapes, strict=True)) if plan.shapes else {}
    inputs = rule.op.inputs
    arguments: _Tensors = {}
    if rule.optional:
        arguments |= {inputs[i].name: v for i, v in zip(rule.optional, ctx.optional, strict=True)}
    if rule.numbers:
        arguments |= {inputs[i].name: v for i, v in zip(rule.numbers, ctx.numbers, strict=True)}
    if all(grad is None for grad in grads):
        return [None] * len(ctx.needs_input_grad)
    if reason := rule.why_not(plan, arguments):
        raise NotImplementedError(f"{reason}\n  in {rule.op.schema}")
    if rule.is_once and torch.is_grad_enabled():
        raise NotImplementedError(f"{rule.op.name} cannot be differentiated twice")
    env = {**arguments, **dict(zip(plan.saved, ctx.saved_tensors, strict=True))}
    env |= {f"{a.name}.grad": grad for a, grad in zip(rule.op.outputs, grads, strict=False)}
    needs = ctx.needs_input_grad
    for step in plan.steps:
        _run(rule, step, plan.wanted, env, shapes)
    out: list[Any] = []
    for arg, need in zip(rule.op.inputs, needs, strict=False):
        grad = env[f"{arg.name}.grad"] if need else None
        if grad is not None and arg.dims == ("...",):
            grad = grad.sum_to_size(shapes[arg.name][0])
        out.append(grad)
    return out


def _function(
    rule: _Rule, overload: Any, full: Any, transform: bool = False
) -> type[torch.autograd.Function]:
    """The autograd.Function of one overload; `full` returns all outputs.

    Args:
        rule: of the operator.
        overload: that is recorded.
        full: the one that returns all outputs.
        transform: whether it is for a transform of torch.func, below which there may be others.
    """
    op, defaults = rule.op, rule.defaults
    returned = op.outputs if overload is full else op.required_outputs
    run = full if rule.uses_optional_output else overload
    made_by_run = op.outputs if run is full else op.required_outputs
    if made_by_run != op.outputs[: len(made_by_run)]:
        raise ValueError(f"{op.name}: optional outputs must come last")
    # Without a rule every result is differentiable, and its backward says why not.
    constant = [i for i, arg in enumerate(returned) if rule.steps and arg.name not in rule.grads]
    plans, run_op, below = rule.plans, run._op, _C._AutoDispatchBelowAutograd
    is_single, count = len(made_by_run) == 1, len(defaults)
    returns_all, returns_many = returned == made_by_run, len(returned) > 1

    def forward(ctx: Any, *given: Any) -> Any:  # which costs each recorded call: nothing in vain
        with below():
            made = run_op(*given)
        return keep(ctx, given, made)

    def forward_of_transform(ctx: Any, *given: Any) -> Any:
        with torch.enable_grad(), below():  # for the transforms below
            made = run_op(*given)
        return keep(ctx, given, made)

    def keep(ctx: Any, given: tuple[Any, ...], made: Any) -> Any:
        outputs = (made,) if is_single else made
        if len(given) < count:
            given = (*given, *defaults[len(given) :])
        needed = ctx.needs_input_grad
        (plans.get(needed) or rule.plan(needed)).keep(ctx, given, outputs)
        if constant:
            ctx.mark_non_differentiable(*[outputs[i] for i in constant])
        return made if returns_all else outputs[: len(returned)] if returns_many else outputs[0]

    def backward(ctx: Any, *grads: Any) -> Any:
        return tuple(_backward(rule, ctx, _by_output(op, returned, grads)))

    members = {
        "forward": staticmethod(forward_of_transform if transform else forward),
        "backward": staticmethod(backward),
    }
    return type(f"{op.name}_gradient", (torch.autograd.Function,), members)


def _by_output(op: Operator, returned: Sequence[Argument], grads: Sequence[Any]) -> list[Any]:
    by_name = {arg.name: grad for arg, grad in zip(returned, grads, strict=True)}
    return [by_name.get(arg.name) for arg in op.outputs]


def _kernel(op: Operator, name: str, overload: Any, rule: _Rule, full: Any) -> Callable[..., Any]:
    """What PyTorch calls: records only if something requires a gradient."""
    # Past torch.autograd.Function.apply, which is Python, and dispatches by itself under transforms
    # of torch.func: here they have been told apart already.
    apply, transformed = (
        vars(_C._FunctionBase)["apply"].__get__(None, _function(rule, overload, full, transform))
        for transform in (False, True)
    )

    in_steps = IN_STEPS.get(name) or SECOND.get(name)
    run, below = overload._op, _C._AutoDispatchBelowAutograd

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
        with below():
            return run(*given)

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
    written = [arg.name for arg in op.outputs]

    def kernel(*given: Any, **named: Any) -> Any:
        if _explain.timed:
            _explain.mark(op.name)
        if _C.is_grad_enabled() and _C._any_requires_grad(*given, *named.values()):
            raise RuntimeError(
                f"{op.name}: a tensor requires a gradient, but results written to given tensors "
                "have none"
            )
        with _C._AutoDispatchBelowAutograd():
            made = overload(*given, **named)
        # What autograd has kept of these is no longer there.
        torch.autograd.graph.increment_version(
            [named[name] for name in written if named.get(name) is not None]
        )
        return made

    return kernel


_kept: list[Any] = []


@functools.cache
def register() -> None:
    """Gives every operator its gradient; called once, when the binding is loaded."""
    library: Any = torch.library.Library("tilewright", "FRAGMENT")  # type: ignore[no-untyped-call]
    _kept.append(library)  # whose end would unregister everything
    for op in _schema.operators().values():
        packet = getattr(torch.ops.tilewright, op.name)
        library.impl(f"{op.name}.out", _kernel_out(op, packet.out), "Autograd")
        rule = _Rule(op)
        has_full = len(op.required_outputs) != len(op.outputs)
        full = packet.full if has_full else packet.default
        for overload in {packet.default, full}:
            name = op.name if overload is packet.default else f"{op.name}.full"
            library.impl(name, _kernel(op, name, overload, rule, full), "Autograd")

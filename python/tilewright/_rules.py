"""What the gradient of an operator takes, by the rule that the catalog holds for it.

A rule names the operators that compute a gradient (tilewright/ops/core/gradient.h). For the inputs
whose gradient is wanted, a plan has the steps and what the forward pass keeps for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tilewright import _schema
from tilewright._schema import Function, Operator, Step


@dataclasses.dataclass(frozen=True)
class Plan:
    """What one set of wanted gradients takes. Positions are among inputs and then outputs."""

    steps: tuple[Step, ...]
    saved: tuple[str, ...]  # tensors that are kept
    kept: tuple[str, ...]  # what else: NAME, NAME.shape, NAME.like for its dtype and device, too
    asked: frozenset[str]  # the gradients that the call is to have
    wanted: frozenset[str]  # these, and what the steps pass on
    missing: str  # the first argument that has no gradient, or nothing


class Rule:
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
        is_wide = [arg.name for arg in op.inputs if arg.dims == ("...",)]
        self.broadcast = set(is_wide) if len(is_wide) > 1 else set()
        self.plans: dict[tuple[bool, ...], Plan] = {}

    def plan(self, needed: tuple[bool, ...]) -> Plan:
        """The steps for the inputs that need a gradient."""
        found = self.plans.get(needed)
        if found is None:
            found = self.plans[needed] = self._make_plan(needed)
        return found

    def _make_plan(self, needed: tuple[bool, ...]) -> Plan:
        names = [a.name for a, needs in zip(self.op.inputs, needed, strict=False) if needs]
        missing = next((name for name in names if f"{name}.grad" not in self.results), "")
        wanted = {f"{name}.grad" for name in names}
        steps: list[Step] = []
        for step in reversed(self.steps):
            if wanted.isdisjoint(step.results):
                continue
            steps.insert(0, step)
            wanted |= {value.key for value in step.inputs}
        values = [value for step in steps for value in step.inputs]
        saved = {v.name for v in values if not v.grad and not v.shape} & self.tensors
        others = {v.name for v in values if not v.grad} & self.arguments.keys() - self.tensors
        others |= self.conditions.keys()
        described = {value.name for value in values if value.shape}
        if len(self.grads) > 1:
            described |= set(self.grads)
        shapes = self.broadcast & set(names)
        if any(value.matrix for value in values):
            shapes |= set(names)
        return Plan(
            steps=tuple(steps),
            saved=tuple(sorted(saved)),
            kept=(
                *sorted(others),
                *(f"{name}.like" for name in sorted(described)),
                *(f"{name}.shape" for name in sorted(shapes - saved - described)),
            ),
            asked=frozenset(f"{name}.grad" for name in names),
            wanted=frozenset(wanted),
            missing=missing,
        )

    def keeper(self, needed: tuple[bool, ...], made: Sequence[str], count: int) -> Function:
        """What keeps what a call's gradient takes, and makes of what ran what the call returns.

        Made of text, without a loop: each recorded call runs it.

        Args:
            needed: which of the given inputs need a gradient.
            made: names of what ran returns.
            count: of them that the call returns.
        """
        plan, given = self.plan(needed), len(needed)
        places = {
            arg.name: f"given[{i}]" if i < given else f"defaults[{i}]"
            for i, arg in enumerate(self.op.inputs)
        }
        # A single result comes by itself.
        places |= {name: f"made[{i}]" if len(made) > 1 else "made" for i, name in enumerate(made)}
        kept = []
        for name in plan.kept:
            of, _, what = name.partition(".")
            place = places[of]
            if what == "like":
                kept.append(f"({place}.shape, {place}.dtype, {place}.device)")
            elif what == "shape":
                kept.append(f"{place}.shape")
            else:  # save_for_backward alone may keep tensors: here, whether they were given
                kept.append(f"{place} is not None or None" if of in self.tensors else place)
        # Without a rule every result is differentiable, and its backward says why not.
        constant = [name for name in made[:count] if self.steps and name not in self.grads]
        parts = {
            "ctx.save_for_backward(%s)": [places[name] for name in plan.saved],
            "ctx.kept = (%s,)": kept,
            "ctx.mark_non_differentiable(%s)": [places[name] for name in constant],
        }
        lines = [line % ", ".join(values) for line, values in parts.items() if values]
        if len(self.op.outputs) > 1:  # else there is a gradient, or no backward
            lines.append("ctx.set_materialize_grads(False)")
        part = "" if count == len(made) else f"[:{count}]" if count > 1 else "[0]"
        scope: dict[str, Any] = {"defaults": self.defaults}
        exec("def keep(ctx, given, made):\n " + "\n ".join([*lines, f"return made{part}"]), scope)
        keep: Function = scope["keep"]
        return keep

    def why_not(self, plan: Plan, arguments: dict[str, Any]) -> str:
        """Why there is no gradient for these arguments; nothing, if there is one."""
        if plan.missing:
            once = self.op.name.removesuffix("_backward")
            twice = f": {once} cannot be differentiated twice" if once != self.op.name else ""
            return f"{self.op.name} has no gradient for {plan.missing}{twice}"
        for name, value in self.conditions.items():
            text = str(arguments[name]).lower()
            given = "absent" if arguments[name] is None or not text else text
            if name in self.tensors and given != "absent":
                given = "given"
            if given != value:
                return f"{self.op.name} has no gradient where {name} is {given}"
        return ""

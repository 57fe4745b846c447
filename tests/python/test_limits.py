"""What the benchmark runner knows of costs, and of what the machine can do at best."""

from __future__ import annotations

import json
import sys

import package_path
import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch
from cases import Case, every_case, workload
from command_line import TOOL

from tilewright import _schema

sys.path.insert(0, str(package_path.ROOT / "benchmarks"))

import costs
import limits
import operands

CACHE = 32 << 20
PREFILL = "llama-3.1-8b/prefill"


def test_what_is_in_the_caches_claims_nothing_of_memory() -> None:
    env = {
        "cpu": {"l3_bytes": CACHE},
        "rates": {"f32_fma_gflops": 100.0, "dram_read_all_gbs": 1.0, "dram_copy_gbs": 1.0},
    }

    def least(case: Case, count: int) -> float | None:
        return limits.seconds(limits.Work(case, *case.cost(), count, 0), env, 1, "cpu")

    for op, label in (
        ("rms_norm", "llama-3.1-8b/decode"),
        ("attention", "smollm2-135m/prefill 512"),
        ("silu_and_mul", "llama-3.1-8b/decode"),
    ):
        case = workload(op, label)
        assert operands.copies(case, case.arguments(), CACHE) == 1
        assert least(case, 1) == pytest.approx(case.cost()[0] / 100e9)
    case = workload("linear", "smollm2-135m/decode")
    assert least(case, 1) == pytest.approx(case.cost()[0] / 100e9)
    count = operands.copies(case, case.arguments(), CACHE)
    assert least(case, count) == pytest.approx(case.cost()[1] / 1e9)


def test_one_thread_is_measured_by_the_rates_of_one() -> None:
    one, two = (limits.environment(TOOL, threads)["rates"] for threads in (1, 2))
    assert (one["threads"], two["threads"]) == (1, 2)
    rates = {"f32_fma_gflops": 1e3, "dram_read_all_gbs": 30.0, "dram_copy_gbs": 40.0}
    case = workload("silu_and_mul", PREFILL)
    work = limits.Work(case, *case.cost(), 100, 0.3 * case.cost()[1])
    found = limits.seconds(work, {"rates": rates}, 1, "cpu")
    assert found == pytest.approx(case.cost()[1] / 40e9)


def test_a_gpu_is_measured_by_its_own_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    known = json.loads(limits.GPU_LIMITS.read_text())["gpu"]
    name = known["name"]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
    monkeypatch.setattr(limits, "last_cache", lambda env, backend: CACHE)
    limits._card.cache_clear()
    case = workload("silu_and_mul", PREFILL)
    work = limits.Work(case, *case.cost(), 100, 0.3 * case.cost()[1])
    copy = known["limits"]["copy memory (read + written)"]["value"] * 1e9
    assert limits.seconds(work, {}, 1, "cuda") == pytest.approx(case.cost()[1] / copy)
    name = "another"
    limits._card.cache_clear()
    assert limits.seconds(work, {}, 1, "cuda") is None
    limits._card.cache_clear()


GRADIENTS = {step.op for op in _schema.operators().values() if op.gradient
             for step in op.gradient.steps if step.op}  # fmt: skip


@pytest.mark.parametrize("name", sorted(GRADIENTS))
def test_an_observed_call_costs_what_its_case_does(name: str) -> None:
    cases = [case for case in every_case() if case.op.name == name and not case.wants_full]
    for case in [case for case in cases if case.combo == 0] or cases[:1]:
        arguments = case.arguments()
        call = getattr(torch.ops.tilewright, name).default
        assert costs.cost_of_calls(lambda: call(*arguments)) == case.cost()  # noqa: B023

"""float32 products of two precisions: the switch, and on a Hopper GPU what it does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[3]
ON_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
STEPS = 8  # products of an instruction
SIZES = [
    (1024, 1024, 1024),
    (640, 768, 96),
    (1000, 1031, 517),
    (131, 4096, 2048),
    (257, 300, 33),
    (4001, 1501, 517),  # whose operands along k are turned over
]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = tilewright.get_float32_matmul_precision()
    yield
    tilewright.set_float32_matmul_precision(before)


def test_what_is_set_is_what_is() -> None:
    for precision in ("high", "highest"):
        tilewright.set_float32_matmul_precision(precision)
        assert tilewright.get_float32_matmul_precision() == precision


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match="'medium' is neither 'highest' nor 'high'"):
        tilewright.set_float32_matmul_precision("medium")
    with pytest.raises(TypeError, match="True is no string"):
        tilewright.set_float32_matmul_precision(True)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "said"), [("high", "high"), ("", "highest"), ("tf32", None)])
def test_the_environment_sets_the_default(value: str, said: str | None) -> None:
    program = "import tilewright; print(tilewright.get_float32_matmul_precision())"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "TILEWRIGHT_FLOAT32_MATMUL_PRECISION": value,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if said is None:
        assert "TILEWRIGHT_FLOAT32_MATMUL_PRECISION: " in ran.stderr
    else:
        assert ran.stdout.strip() == said


def test_a_cpu_multiplies_in_float32() -> None:
    a, b = torch.randn(1, 64, 300), torch.randn(1, 300, 80)
    exact = tilewright.ops.matmul(a, b)
    tilewright.set_float32_matmul_precision("high")
    assert torch.equal(tilewright.ops.matmul(a, b), exact)


def as_tf32(x: torch.Tensor) -> torch.Tensor:
    """What tensor cores read, in float64: the low 13 bits of the mantissa are cut off."""
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32).double()


def normal(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cuda")


def assert_product(out: torch.Tensor, want: torch.Tensor, depth: int, steps: int = 1) -> None:
    """Equal but for float32 sums, which tensor cores cut off every `steps` products.

    What tf32 itself loses is ten times as much.
    """
    bound = 1e-6 * depth**0.5 * 8
    if steps > 1:
        bound += depth / steps * 2.0**-23 * float(want.abs().max())
    assert (out.double() - want).abs().max() < bound


@pytest.mark.skipif(not ON_HOPPER, reason="needs a Hopper GPU")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_matmul_by_tensor_cores(size: tuple[int, int, int], layout: str) -> None:
    m, n, k = size
    a = normal(2, k, m, seed=1).mT if layout[0] == "t" else normal(2, m, k, seed=1)
    b = normal(2, n, k, seed=2).mT if layout[1] == "t" else normal(2, k, n, seed=2)
    tilewright.set_float32_matmul_precision("high")
    with tilewright.explain() as e:
        out = tilewright.ops.matmul(a, b)
        again = tilewright.ops.matmul(a, b)
    if min(m, n) >= 640:
        assert e.records[0].isa == "sm_90a_tf32"
    if e.records[0].isa == "sm_90a_tf32":
        assert_product(out, as_tf32(a) @ as_tf32(b), k, STEPS)
    assert torch.equal(out, again)
    tilewright.set_float32_matmul_precision("highest")
    with tilewright.explain() as e:
        out = tilewright.ops.matmul(a, b)
    assert e.records[0].isa == "cuda"
    assert_product(out, a.double() @ b.double(), k)


@pytest.mark.skipif(not ON_HOPPER, reason="needs a Hopper GPU")
@pytest.mark.parametrize("size", [(1024, 1024, 512), (1000, 1031, 517)])
def test_linear_by_tensor_cores(size: tuple[int, int, int]) -> None:
    m, n, k = size
    x, weight, bias = normal(m, k, seed=1), normal(n, k, seed=2), normal(n, seed=3)
    residual = normal(m, n, seed=4)
    tilewright.set_float32_matmul_precision("high")
    with tilewright.explain() as e:
        out = tilewright.ops.linear(x, weight, bias, residual, "silu")
    assert e.records[0].isa == "sm_90a_tf32"
    sums = as_tf32(x) @ as_tf32(weight).mT + bias.double()
    assert_product(out, torch.nn.functional.silu(sums) + residual.double(), k, STEPS)


@pytest.mark.skipif(not ON_HOPPER, reason="needs a Hopper GPU")
def test_gradients_by_tensor_cores() -> None:
    x, weight = normal(1024, 512, seed=1), normal(768, 512, seed=2)
    grad = normal(1024, 768, seed=3)
    x.requires_grad_(True), weight.requires_grad_(True)
    tilewright.set_float32_matmul_precision("high")
    tilewright.ops.linear(x, weight).backward(grad)
    assert x.grad is not None
    assert weight.grad is not None
    assert_product(x.grad, as_tf32(grad) @ as_tf32(weight.detach()), 768, STEPS)
    assert_product(weight.grad, as_tf32(grad).mT @ as_tf32(x.detach()), 1024, STEPS)

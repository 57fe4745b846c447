"""Tensors of more than 2^31 elements on the CPU; many of them share their memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch

OPS = torch.ops.tilewright
MANY = 2**31 + 64


def free_gibibytes() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) / 2**20


needs_8 = pytest.mark.skipif(free_gibibytes() < 8, reason="needs 8 GiB of free memory")
needs_12 = pytest.mark.skipif(free_gibibytes() < 12, reason="needs 12 GiB of free memory")


@needs_12
@pytest.mark.parametrize("shape", [(2**31 + 67,), (3, 2**30 + 5)])
def test_copies(shape) -> None:
    x = torch.zeros(shape, dtype=torch.int8)
    x.view(-1)[-3:] = torch.tensor([5, 6, 7], dtype=torch.int8)
    x.view(-1)[2**31 : 2**31 + 2] = torch.tensor([3, 4], dtype=torch.int8)
    out = OPS.copy(x)
    assert torch.equal(out.view(-1)[-70:], x.view(-1)[-70:])
    assert out.view(-1)[2**31 : 2**31 + 2].tolist() == [3, 4]


@needs_12
def test_transposes() -> None:
    x = torch.zeros(2**19 + 3, 4096, dtype=torch.int8)
    x[-2:] = torch.arange(2 * 4096).view(2, 4096).to(torch.int8)
    x[:, -1] = 9
    out = OPS.transpose(x)
    assert out.is_contiguous()
    assert torch.equal(out[:, -2:], x[-2:].T)
    assert torch.equal(out[-1], x[:, -1])


@pytest.mark.parametrize(
    ("name", "want"),
    [("sum", 2**30 + 32), ("amax", 0.5), ("argmax", 0), ("count_nonzero", MANY)],
)
def test_a_row(name, want) -> None:
    row = torch.tensor(0.5).expand(MANY)
    assert getattr(OPS, name)(row).item() == pytest.approx(want, rel=1e-6)


WEIGHT = torch.linspace(0.5, 2, 4096).bfloat16()
ROWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": OPS.exp,
    "softmax": OPS.softmax,
    "rms_norm": lambda x: OPS.rms_norm(x, WEIGHT),
    "layer_norm": lambda x: OPS.layer_norm(x, WEIGHT, WEIGHT),
}


@needs_8
@pytest.mark.parametrize("name", ROWS)
def test_results_of_many_rows(name) -> None:
    row = torch.randn(1, 4096).bfloat16()
    out = ROWS[name](row.expand(2**19 + 1, 4096))
    want = ROWS[name](row)[0]
    for at in (0, 2**19 - 1, 2**19):  # the last one begins at element 2^31
        assert torch.equal(out[at], want)


def test_logits() -> None:
    """The loss of each row is the same, and the last begins beyond 2^31 elements."""
    row = torch.randn(1, 2**17)
    targets = torch.zeros(2**14 + 2, dtype=torch.int64)
    targets[-1] = 77
    losses = OPS.cross_entropy(row.expand(2**14 + 2, 2**17), targets, reduction="none")
    want = -row.double().log_softmax(-1)[0]
    assert losses[0].item() == pytest.approx(want[0].item(), rel=1e-5)
    assert torch.equal(losses[:-1], losses[:1].expand(2**14 + 1))
    assert losses[-1].item() == pytest.approx(want[77].item(), rel=1e-5)


@pytest.mark.parametrize("queries", [1, 40])
def test_keys(queries: int) -> None:
    """The last key has all the weight. Each begins one element after the one before."""
    shape, strides = (1, 2**24 + 3, 1, 128), (0, 1, 0, 1)
    k, v = torch.zeros(2**24 + 130), torch.randn(2**24 + 130)
    k[-1] = 100
    q = torch.full((1, queries, 1, 128), 10.0)
    out = OPS.attention(q, k.as_strided(shape, strides), v.as_strided(shape, strides))
    assert torch.equal(out, v[-128:].expand_as(out))


def test_a_table() -> None:
    table = torch.empty(2**21 + 5, 1024, dtype=torch.float16)  # whose pages are not there yet
    ids = torch.tensor([2**21 + 4, 0, 2**21, 2**20 + 1], dtype=torch.int32)
    rows = torch.randn(4, 1024).half()
    table[ids.long()] = rows
    assert torch.equal(OPS.embedding(table, ids), rows)


def test_the_end_of_a_row() -> None:
    x = torch.ones(1, dtype=torch.bfloat16).expand(MANY)
    out = torch.empty(64, dtype=torch.bfloat16)
    OPS.exp.out(x[-64:], out=out)
    assert bool((out > 2.7).all())
    assert OPS.sum(x.reshape(2, -1)[:, : 2**20], 1).shape == (2,)

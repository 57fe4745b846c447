"""Of equal numbers the first is taken, however rows lie: random ones have hardly any."""

from __future__ import annotations

import pytest
import tilewright.torch  # noqa: F401 - registers the operators
import torch

OPS = torch.ops.tilewright
Tensor = torch.Tensor
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
COLS = [1, 2, 7, 8, 9, 16, 27, 33, 64, 125, 1000, 1023, 4096, 5001, 40000]


def lying(x: Tensor) -> dict[str, Tensor]:
    """The same rows side by side, not aligned, and with gaps between elements."""
    rows, cols = x.shape
    odd = x.new_empty(rows, cols + 1)[:, 1:].copy_(x)
    return {"contiguous": x, "unaligned": odd, "gaps": x.new_empty(rows, 2 * cols)[:, ::2].copy_(x)}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("cols", COLS)
def test_the_first_of_equals(cols: int, dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(cols)
    given = torch.randint(0, 3, (min(300, 200_000 // cols + 1), cols)).to(dtype)
    given[1::5, cols // 2 :] = torch.nan
    given[2::5] = -torch.inf
    largest = given.double().nan_to_num(nan=9.0)
    first = (largest == largest.amax(1, keepdim=True)).int().argmax(1)  # of 1 the first, here
    order = torch.sort(largest, dim=1, descending=True, stable=True).indices
    few = min(cols, 4)
    for name, x in lying(given.to(device)).items():
        assert torch.equal(OPS.argmax(x).cpu(), first), name
        assert torch.equal(OPS.topk(x, few)[1].cpu(), order[:, :few]), name
    columns = given.T.contiguous().to(device)
    assert torch.equal(OPS.argmax(columns, 0).cpu(), first)

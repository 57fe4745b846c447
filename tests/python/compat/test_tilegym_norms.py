"""TileGym's modules of RMS normalization, and what matmul says of wrong matrices."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracles import close
from tilewright.compat import tilegym

A, B = torch.randn(2, 3, 40), torch.randn(2, 3, 40)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_modules_of_rms_norm(dtype: torch.dtype) -> None:
    plain, gemma = (tilegym.get_rms_norm_module(model) for model in ("llama", "gemma3"))
    x, dy = A.to(dtype).requires_grad_(), B.to(dtype)
    shifted = plain(40, 1e-5, 0.5).to(dtype)
    close(shifted(x.detach()).detach(), 1.5 * F.rms_norm(x.detach(), (40,), None, 1e-5))
    norm = gemma(dim=40, eps=1e-5, casting_mode="gemma", in_place=False).to(dtype)
    assert (norm.offset, norm.weight.abs().max()) == (1, 0)
    assert "eps=1e-05, offset=1.0" in repr(norm)
    layer = plain(40, 1e-5).to(dtype)
    torch.nn.init.normal_(layer.weight)
    wide = [t.detach().double().requires_grad_() for t in (x, layer.weight)]
    F.rms_norm(wide[0], (40,), wide[1], 1e-5).backward(dy.double())
    rstd = (wide[0].detach().pow(2).mean(-1) + 1e-5).rsqrt().flatten().float()
    got = plain.rms_norm_backward(x.detach(), dy, layer.weight.detach(), rstd)
    close(got[0], wide[0].grad.to(dtype))
    close(got[1], wide[1].grad.to(dtype))


def test_what_matmul_says() -> None:
    with pytest.raises(ValueError, match=r"a \(2, 3, 40\) and b \(3, 40\) must be matrices"):
        tilegym.matmul(A, B[0])
    with pytest.raises(ValueError, match=r"differ: 40 and 3, with trans_a=None and trans_b=None"):
        tilegym.matmul(A[0], B[0])

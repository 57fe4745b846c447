"""TileGym's modules of RMS normalization, and what matmul says of wrong matrices."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from oracles import close
from tilewright.compat import tilegym
from tilewright.compat.tilegym import liger, unsloth

A, B = torch.randn(2, 3, 40), torch.randn(2, 3, 40)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_modules_of_rms_norm(dtype: torch.dtype) -> None:
    plain, gemma = (tilegym.get_rms_norm_module(model) for model in ("llama", "gemma3"))
    x, dy = A.to(dtype, copy=True).requires_grad_(), B.to(dtype)
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


SHIFTED = {
    "rms_norm": lambda x, w: tilegym.rms_norm(x, None, w, 1e-6, offset=1.0),
    "module": lambda x, w: gemma_layer(w)(x),
    "liger.rms_norm": lambda x, w: liger.rms_norm(x, w, 1e-6, 1.0, "gemma"),
    "liger.fused_add_rms_norm": lambda x, w: liger.fused_add_rms_norm(
        x, torch.zeros_like(x), w, 1e-6, 1.0, "gemma"
    )[0],
    "unsloth.rms_layernorm": lambda x, w: unsloth.rms_layernorm(x, w, 1e-6, gemma=True),
}


def gemma_layer(weight: torch.Tensor) -> torch.nn.Module:
    layer = tilegym.get_rms_norm_module("gemma3")(40).requires_grad_(False)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    return layer


@pytest.mark.parametrize("name", SHIFTED)
def test_small_weights_outlast_their_offset(name: str) -> None:
    """1 + 1/512 is 1 in bfloat16: the sum is one of float32."""
    x = A.bfloat16()
    weight = torch.full((40,), 1 / 512, dtype=torch.bfloat16)
    want = F.rms_norm(x.double(), (40,), None, 1e-6) * (1 + 1 / 512)
    assert torch.equal(SHIFTED[name](x, weight), want.bfloat16())


def test_gradients_of_weights_with_an_offset() -> None:
    x, weight = A.detach().clone().requires_grad_(), B[0, 0].detach().clone().requires_grad_()
    y, s = liger.fused_add_rms_norm(x, B, weight, 1e-6, 1.0)
    (y.sum() + s.sum()).backward()
    wide = [t.detach().double().requires_grad_() for t in (x, weight)]
    total = wide[0] + B.double()
    (F.rms_norm(total, (40,), wide[1] + 1, 1e-6).sum() + total.sum()).backward()
    close(x.grad, wide[0].grad.float())
    close(weight.grad, wide[1].grad.float())


def test_what_norms_say_of_their_modes() -> None:
    norms = {
        "rms_norm": lambda mode: liger.rms_norm(A, B[0, 0], 1e-6, 0.0, mode),
        "fused_add_rms_norm": lambda mode: liger.fused_add_rms_norm(A, B, B[0, 0], 1e-6, 0.0, mode),
        "modulated_rms_norm": lambda mode: liger.modulated_rms_norm(
            A, B[0, 0], A, None, 1e-6, 0.0, mode
        ),
    }
    for name, norm in norms.items():
        for mode in ("llama", "gemma", "none"):
            norm(mode)
        with pytest.raises(ValueError, match=f"^{name}: casting_mode 'llma'"):
            norm("llma")

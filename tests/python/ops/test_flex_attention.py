"""Attention with functions of scores and masks against torch.nn.attention.flex_attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import DEVICES, TOLERANCES
from tilewright._score_text import Numbers, traced
from tilewright.nn import flex_attention
from tilewright.nn._flex_gradient import ByOperator
from torch.nn.attention import flex_attention as torch_flex
from torch.nn.attention.flex_attention import create_block_mask

OPS = torch.ops.tilewright
Tensor = torch.Tensor
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def operands(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> tuple[Tensor, ...]:
    """q [B, Hq, S, D], k and v [B, H, L, D]."""
    torch.manual_seed(sum(shape))
    batch, q_heads, heads, queries, keys, dims = shape
    sizes = [(batch, q_heads, queries, dims), *[(batch, heads, keys, dims)] * 2]
    return tuple(torch.randn(*s, device=device).to(dtype) for s in sizes)


def close(got: Tensor, want: Tensor, dtype: torch.dtype) -> None:
    tolerance = 2 * TOLERANCES[dtype]
    torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance)


def exact(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """By PyTorch's definition in float64."""
    gqa = q.shape[1] != k.shape[1]
    wide = (x.double() for x in (q, k, v))
    aux = torch_flex.AuxRequest(lse=True)
    out, found = torch_flex.flex_attention(*wide, enable_gqa=gqa, return_aux=aux, **options)
    return out, found.lse


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler PyTorch evaluates its definition."""
    monkeypatch.setattr(torch_flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


DOCUMENTS = torch.tensor([0] * 20 + [1] * 37 + [2] * 13, dtype=torch.int32)
TABLE = torch.linspace(-1, 1, 4 * 139).view(4, 139)
PREFIX = torch.tensor([5, 30])
SCORE_MODS: dict[str, Callable[..., Any]] = {
    "relative": lambda score, _b, _h, q, k: score + (q - k) * 0.125,
    "alibi": lambda score, _b, h, q, k: score - torch.exp2(-(h + 1) / 2) * (q - k).abs(),
    "cap": lambda score, _b, _h, _q, _k: 5 * torch.tanh(score / 5),
    "causal": lambda score, _b, _h, q, k: torch.where(q >= k, score, -float("inf")),
    "table": lambda score, _b, h, q, k: score + TABLE[h, q - k + 69],
    "buckets": lambda score, _b, _h, _q, k: score - torch.floor(k / 3) * 0.25,
    "batch": lambda score, b, _h, q, k: score * (1 - 0.25 * b) + torch.minimum(q, k) % 3,
}
MASK_MODS: dict[str, Callable[..., Any]] = {
    "causal": lambda _b, _h, q, k: q >= k,
    "window": lambda _b, _h, q, k: (q - k <= 9) & (k - q < 4),
    "documents": lambda _b, _h, q, k: (DOCUMENTS[q] == DOCUMENTS[k]) & (q >= k),
    "prefix": lambda b, _h, q, k: (k < PREFIX[b]) | (q >= k),
    "hides rows": lambda _b, h, q, _k: ~((q // 8) % 2 == h % 2),
}


def on(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    """A function whose captured tensors are there."""
    names = ("DOCUMENTS", "TABLE", "PREFIX")
    moved = {name: globals()[name].to(device) for name in names}
    return type(function)(function.__code__, {"torch": torch, "float": float, **moved})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SCORE_MODS)
def test_scores_are_modified(name: str, dtype: torch.dtype, device: str) -> None:
    q, k, v = operands((2, 4, 2, 70, 70, 64), dtype, device)
    modify = on(SCORE_MODS[name], device)
    out, lse = flex_attention(q, k, v, modify, enable_gqa=True, return_lse=True)
    want, want_lse = exact(q, k, v, score_mod=modify)
    close(out, want, dtype)
    close(lse, want_lse, dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dims", [24, 128])
@pytest.mark.parametrize("name", MASK_MODS)
def test_masks_hide(name: str, dims: int, device: str) -> None:
    q, k, v = operands((2, 2, 2, 70, 70, dims), torch.bfloat16, device)
    mask = on(MASK_MODS[name], device)
    block_mask = create_block_mask(mask, 2, 2, 70, 70, device=device)
    want, _ = exact(q, k, v, score_mod=lambda s, *at: torch.where(mask(*at), s, -math.inf))
    close(flex_attention(q, k, v, block_mask=block_mask), want.nan_to_num(0), torch.bfloat16)
    close(flex_attention(q, k, v, mask_mod=mask), want.nan_to_num(0), torch.bfloat16)


@pytest.mark.parametrize("device", DEVICES)
def test_both_and_a_scale(device: str) -> None:
    q, k, v = operands((2, 2, 1, 1, 300, 32), torch.float32, device)
    modify, mask = on(SCORE_MODS["cap"], device), lambda b, _h, _q, k: k % 3 != b
    want, _ = exact(
        q,
        k,
        v,
        scale=0.5,
        score_mod=lambda s, *at: torch.where(mask(*at), modify(s, *at), -math.inf),
    )
    got = flex_attention(q, k, v, modify, scale=0.5, enable_gqa=True, mask_mod=mask)
    close(got, want, torch.float32)


@pytest.mark.parametrize("device", DEVICES)
def test_texts_and_kernels_of_the_same_name_differ(device: str) -> None:
    """Kernels are kept by what they compute."""
    q, k, v = operands((1, 2, 2, 40, 40, 64), torch.float16, device)
    for slope in (0.25, 0.5, 0.25):
        want, _ = exact(q, k, v, score_mod=lambda s, _b, _h, q, k, by=slope: s - by * (q - k))
        close(flex_attention(q, k, v, f"score - {slope} * (q - k)"), want, torch.float16)


def written_out(given: list[Tensor], modify: Any, mask: Any) -> tuple[Tensor, Tensor]:
    """Output and lse by operators that PyTorch knows the gradients of."""
    q, (k, v) = given[0], (x.repeat_interleave(2, 1) for x in given[1:])
    at = [
        torch.arange(n, device=q.device).view(*[-1 if d == i else 1 for d in range(4)])
        for i, n in enumerate((*q.shape[:3], k.shape[2]))
    ]
    scores = modify(q @ k.transpose(2, 3) / q.shape[3] ** 0.5, *at)
    scores = torch.where(mask(*at), scores, -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("most", [1, 5000, 1 << 25])
@pytest.mark.parametrize("name", ["alibi", "cap", "table"])
def test_gradients(name: str, most: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One query at a time, some, and all."""
    monkeypatch.setattr(ByOperator, "_MOST", most)
    given = [x.requires_grad_() for x in operands((2, 4, 2, 70, 70, 16), torch.float32, device)]
    modify, mask = on(SCORE_MODS[name], device), on(MASK_MODS["prefix"], device)
    mine = flex_attention(*given, modify, None, None, True, True, mask_mod=mask)
    theirs = written_out(given, modify, mask)
    grads = [
        torch.autograd.grad(out.square().sum() + lse.sin().sum(), given)
        for out, lse in (mine, theirs)
    ]
    for got, want in zip((*mine, *grads[0]), (*theirs, *grads[1]), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_gradients_of_rows_that_see_nothing() -> None:
    given = [x.requires_grad_() for x in operands((1, 2, 2, 40, 40, 16), torch.float32, "cpu")]
    out = flex_attention(*given, mask_mod=lambda _b, _h, q, k: (q > 20) & (k < q))
    grads = torch.autograd.grad(out.sum(), given)
    assert all(grad.isfinite().all() for grad in grads)
    assert not grads[0][:, :, :21].any()
    assert grads[0][:, :, 22:].any()


@pytest.mark.parametrize("shape", [(2, 2, 1, 0, 5, 8), (2, 2, 1, 5, 0, 8), (0, 2, 1, 5, 5, 8)])
def test_gradients_of_nothing(shape: tuple[int, ...]) -> None:
    given = [x.requires_grad_() for x in operands(shape, torch.float32, "cpu")]
    out = flex_attention(*given, SCORE_MODS["cap"], enable_gqa=True)
    grads = torch.autograd.grad(out.sum(), given)
    for grad, x in zip(grads, given, strict=True):
        torch.testing.assert_close(grad, torch.zeros_like(x), rtol=0, atol=0)


def test_gradients_of_what_is_captured() -> None:
    given = [x.requires_grad_() for x in operands((2, 4, 2, 70, 70, 16), torch.float32, "cpu")]
    bias = TABLE.clone().requires_grad_()
    modify, mask = (lambda s, _b, h, q, k: s + bias[h, q - k + 69]), MASK_MODS["prefix"]
    mine = flex_attention(*given, modify, enable_gqa=True, mask_mod=mask)
    theirs, _ = written_out(given, modify, mask)
    wanted = [*given, bias]
    grads = [torch.autograd.grad(out.square().sum(), wanted) for out in (mine, theirs)]
    for got, want in zip(*grads, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_text_has_no_gradient() -> None:
    q, k, v = (x.requires_grad_() for x in operands((1, 1, 1, 4, 4, 8), torch.float32, "cpu"))
    with pytest.raises(Exception, match="attention has no gradient where score_mod is score"):
        flex_attention(q, k, v, "score * 2").sum().backward()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda s, _b, _h, q, k: s if q > k else 0, "Python cannot decide by a score"),
        (lambda s, *_: torch.erf(s), "torch's erf in a score_mod or mask_mod cannot be traced"),
        (lambda s, *_: s + TABLE, r"a captured tensor \(4, 139\) must be indexed"),
        (lambda s, _b, h, *_: s + TABLE[h], r"a captured tensor \(4, 139\) has 1 indices"),
        (lambda s, *_: s + "1", "str in a score_mod or mask_mod cannot be traced"),
        (lambda *_: None, "NoneType in a score_mod or mask_mod cannot be traced"),
    ],
)
def test_what_cannot_be_traced(function: Callable[..., Any], message: str) -> None:
    q, k, v = operands((1, 1, 1, 4, 4, 8), torch.float32, "cpu")
    with pytest.raises(TypeError, match=message):
        flex_attention(q, k, v, function)


def test_wrong_programs_name_the_operator_and_the_place() -> None:
    q, k, v = operands((1, 1, 1, 4, 4, 8), torch.float32, "cpu")
    with pytest.raises(ValueError, match="attention: score_mod: at 6, there is no 'nothing'"):
        flex_attention(q, k, v, "2.0 * nothing")
    with pytest.raises(ValueError, match="attention: mask_mod: at 0, a mask is a condition"):
        flex_attention(q, k, v, mask_mod=lambda _b, _h, q, k: q - k)
    with pytest.raises(ValueError, match="score_mod reads mod_i32, which has no elements"):
        flex_attention(q, k, v, "mod_i32[q]")
    with pytest.raises(ValueError, match="2 heads of queries and 1 of keys need enable_gqa"):
        flex_attention(q.expand(1, 2, 4, 8), k, v)


def test_text_that_is_traced() -> None:
    numbers = Numbers()
    names = ("score", "b", "h", "q", "k")
    table = torch.zeros(3, 5)
    text = traced(lambda s, _b, h, q, _k: 1 - s**2 + table[h, q] + table[-1, q], names, numbers)
    assert text == "(((1 - (score * score)) + mod_f32[h * 5 + q]) + mod_f32[q + 10])"
    assert numbers.tensors(torch.device("cpu"))["mod_f32"].shape == (15,)


def test_all_forms_agree() -> None:
    """Packed and paged sequences, and the composite, with the same programs."""
    q, k, v = (x.transpose(1, 2) for x in operands((2, 4, 2, 6, 32, 64), torch.float32, "cpu"))
    mods = {"score_mod": "score - 0.1 * abs(q - k) * b", "mask_mod": "mod_i32[k] != h"}
    mods |= {"mod_i32": torch.arange(32, dtype=torch.int32) % 5}
    want = OPS.attention(q, k, v, **mods)
    ends = (torch.tensor(x, dtype=torch.int32) for x in ([0, 6, 12], [0, 32, 64]))
    packed = OPS.attention_varlen(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), *ends, **mods)
    torch.testing.assert_close(packed.view_as(want), want)
    pages = (x.reshape(8, 8, 2, 64) for x in (k, v))
    table = torch.arange(8, dtype=torch.int32).view(2, 4)
    lens = torch.tensor([32, 32], dtype=torch.int32)
    paged = OPS.attention_paged(q.flatten(0, 1), *pages, table, lens, **mods)
    torch.testing.assert_close(paged.view_as(want), want)


def test_pytorchs_own_arguments() -> None:
    q, k, v = operands((1, 2, 2, 70, 70, 64), torch.float32, "cpu")
    given = (q, k, v, SCORE_MODS["cap"], None, None, False, False, {"BLOCK_M": 64})
    want, lse = exact(q, k, v, score_mod=SCORE_MODS["cap"])
    out, aux = flex_attention(*given, return_aux=torch_flex.AuxRequest(lse=True))
    close(out, want, torch.float32)
    close(aux.lse, lse, torch.float32)
    assert flex_attention(*given, return_aux=torch_flex.AuxRequest())[1].lse is None
    with pytest.raises(ValueError, match="return_aux gives lse alone"):
        flex_attention(*given, return_aux=torch_flex.AuxRequest(max_scores=True))


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
def test_blocks_without_a_function(heads: int, records: bool) -> None:
    """A mask that is nothing but blocks."""
    q, k, v = operands((2, 2, 2, 70, 90, 32), torch.float32, "cpu")
    sees = torch.rand(2, heads, 5, 6) < 0.5
    sees[..., 0] = True
    blocks = torch_flex.BlockMask.from_kv_blocks(
        sees.sum(-1).int(), (~sees).int().argsort(dim=-1, stable=True).int(), BLOCK_SIZE=16
    )
    at = sees.repeat_interleave(16, 2).repeat_interleave(16, 3)[:, :, :70, :90]
    scores = (q.double() @ k.double().transpose(2, 3) / 32**0.5).masked_fill(~at, -math.inf)
    got = flex_attention(q.requires_grad_(records), k, v, block_mask=blocks)
    close(got.detach(), scores.softmax(-1) @ v.double(), torch.float32)


def test_under_torch_compile() -> None:
    """Functions are traced inside of its graph."""
    given = operands((2, 4, 2, 70, 70, 64), torch.float32, "cpu")

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mods = {"score_mod": SCORE_MODS["table"], "mask_mod": MASK_MODS["documents"]}
        return flex_attention(q, k, v, enable_gqa=True, **mods)

    compiled = torch.compile(attend, fullgraph=True)
    torch.testing.assert_close(compiled(*given), attend(*given), rtol=0, atol=0)


def test_gradients_under_torch_compile() -> None:
    given = [x.requires_grad_() for x in operands((1, 2, 1, 30, 40, 16), torch.float32, "cpu")]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out: Tensor = flex_attention(q, k, v, SCORE_MODS["cap"], enable_gqa=True)
        return out.square().sum()

    grads = [
        torch.autograd.grad(f(*given), given)
        for f in (attend, torch.compile(attend, fullgraph=True))
    ]
    for got, want in zip(*grads, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)

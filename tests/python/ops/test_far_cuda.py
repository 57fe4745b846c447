"""Tensors of more than 2^31 elements on a GPU: what lies at their ends, beside float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tilewright.torch  # noqa: F401 - makes torch.ops.tilewright
import torch
from attention_definition import attend
from cases import TOLERANCES, assert_close

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

OPS = torch.ops.tilewright
BF16 = torch.bfloat16
FAR = (1 << 31) + 4096  # elements
MOST = 24 << 30  # bytes that a test takes


@pytest.fixture(autouse=True)
def frees_memory() -> Iterator[None]:
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < MOST:
        pytest.skip(f"needs {MOST >> 30} GiB of a GPU's memory")
    yield
    torch.cuda.empty_cache()


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.randn(*shape, generator=generator, device="cuda", dtype=BF16)


def zeros(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.zeros(*shape, device="cuda", dtype=dtype)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, device="cuda", dtype=torch.int32)


def expect(got: torch.Tensor, want: torch.Tensor) -> None:
    """As the catalog's cases have it; attention twice of it."""
    assert_close(got, want.to(got.dtype), 2 * TOLERANCES[BF16])


def test_rows_beyond_32_bits() -> None:
    x = torch.zeros(FAR // 4096, 4096, device="cuda", dtype=torch.bfloat16)
    x[-2:] = torch.randn(2, 4096, device="cuda")
    ones = torch.ones(4096, device="cuda", dtype=torch.bfloat16)
    for function in (OPS.relu, OPS.softmax, OPS.sum, lambda x: OPS.rms_norm(x, ones)):
        assert torch.equal(function(x)[-2:], function(x[-2:].clone()))
    flat = x.view(-1)
    assert torch.equal(OPS.relu(flat)[-8192:], OPS.relu(flat[-8192:].clone()))
    assert torch.equal(OPS.transpose(x)[:, -2:], x[-2:].T)


def test_matrices_beyond_32_bits() -> None:
    """Of integers whose sums are exact, so that nothing depends on how they are added."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    rows = FAR // 4096
    a, weight = zeros(rows, 4096), zeros(64, 4096)
    for part in (a[-64:], weight):
        part.copy_(torch.randint(-4, 5, (64, 4096), generator=generator, device="cuda"))
    assert torch.equal(OPS.linear(a, weight)[-64:], OPS.linear(a[-64:].clone(), weight))
    assert torch.equal(  # rows that are far from each other
        OPS.linear(a[:: rows // 8], weight), OPS.linear(a[:: rows // 8].clone(), weight)
    )


@pytest.mark.parametrize("queries", [1, 130])
def test_keys_beyond_32_bits(queries: int) -> None:
    """One key, the last of all, has all the weight."""
    heads, dims = 16, 128
    keys = FAR // (heads * dims)
    k = torch.zeros(1, keys, heads, dims, device="cuda", dtype=torch.bfloat16)
    v = torch.zeros_like(k)
    k[:, -1], v[:, -1] = 4, torch.randn(heads, dims, device="cuda")
    q = torch.full((1, queries, heads, dims), 4.0, device="cuda", dtype=torch.bfloat16)
    out = OPS.attention(q, k, v)
    assert torch.equal(out, v[:, -1:].expand_as(out))
    pages = [
        x.view(-1, 64, heads, dims) for x in (k[:, : keys // 64 * 64], v[:, : keys // 64 * 64])
    ]
    pages[0][-1, -1], pages[1][-1, -1] = 4, v[0, -1]
    table = torch.full((1, 4), len(pages[0]) - 1, device="cuda", dtype=torch.int32)
    lens = torch.tensor([256], device="cuda", dtype=torch.int32)
    out = OPS.attention_paged(q[0, :1], *pages, table, lens)
    assert torch.equal(out, v[:1, -1])


@pytest.mark.parametrize("queries", [1, 100])
def test_latents_beyond_32_bits(queries: int) -> None:
    page, count = 64, FAR // (64 * 512) + 5
    pages = zeros(count, page, 1, 576)
    pages[-5:] = normal(5, page, 1, 576)
    order = [count - 2, count - 5, count - 1, count - 3, count - 4]
    q, length = normal(queries, 16, 576, seed=1), 5 * page - 7
    parts = [x for y in (q, pages) for x in (y[..., :512], y[..., 512:])]
    out = OPS.mla_paged(*parts, ints(*order)[None], ints(length), causal=True)
    keys = pages[order].view(-1, 1, 576)
    expect(out, attend(q, keys, keys[..., :512], length))


def test_packed_keys_beyond_32_bits() -> None:
    heads, dims, last = 16, 128, 300
    keys = FAR // (heads * dims) + last
    k, v = zeros(keys, heads, dims), zeros(keys, heads, dims)
    k[-last:], v[-last:] = normal(last, heads, dims), normal(last, heads, dims, seed=1)
    q = normal(164, heads, dims, seed=2)
    out = OPS.attention_varlen(q, k, v, ints(0, 64, 164), ints(0, keys - last, keys), causal=True)
    assert (out[:64] == 0).all()
    expect(out[64:], attend(q[64:], k[-last:], v[-last:], last))


def test_packed_queries_beyond_32_bits() -> None:
    heads, dims, last = 16, 128, 200
    queries = FAR // (heads * dims) + last
    q = zeros(queries, heads, dims)
    q[-last:] = normal(last, heads, dims)
    k, v = normal(400, heads, dims, seed=1), normal(400, heads, dims, seed=2)
    ends = ints(0, queries - last, queries), ints(0, 100, 400)
    out = OPS.attention_varlen(q, k, v, *ends)
    expect(out[:3], v[:100].double().mean(0).expand(3, -1, -1))  # of queries that are 0
    weights = torch.einsum("shd,lhd->hsl", q[-last:].double(), k[100:].double()) / dims**0.5
    expect(out[-last:], torch.einsum("hsl,lhd->shd", weights.softmax(-1), v[100:].double()))


@pytest.mark.parametrize("queries", [1, 100])
def test_narrow_keys_beyond_32_bits(queries: int) -> None:
    page, heads, dims = 64, 8, 128
    count = FAR // (page * heads * dims) + 5
    k, v = (zeros(count, page, heads, dims, dtype=torch.int8) for _ in "kv")
    scales = [torch.ones(count, page, heads, device="cuda") for _ in "kv"]
    for i, (x, scale) in enumerate(zip((k, v), scales, strict=True)):
        x[-5:] = (normal(5, page, heads, dims, seed=i) * 30).clamp(-127, 127).to(torch.int8)
        scale[-5:] = normal(5, page, heads, seed=9 + i).abs() / 30
    order = [count - 2, count - 5, count - 1, count - 3, count - 4]
    q, length = normal(queries, heads, dims, seed=5), 5 * page - 7
    out = OPS.attention_paged(
        q, k, v, ints(*order)[None], ints(length), None, None, *scales, causal=True
    )
    wide = [
        (x[order].double() * scale[order].double()[..., None]).view(-1, heads, dims)
        for x, scale in zip((k, v), scales, strict=True)
    ]
    expect(out, attend(q, *wide, length))


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(FAR // 512, 512, 64), (64, 64, FAR // 64), (65544, 64, 32776)],
    ids=["left", "right", "out"],
)
def test_products_beyond_32_bits(m: int, k: int, n: int) -> None:
    """Of row-major operands: the last rows and columns."""
    a, b = zeros(1, m, k), zeros(1, k, n)
    a[0, -64:], b[0, :, -64:] = normal(64, k), normal(k, 64, seed=1)
    out = OPS.matmul(a, b)
    expect(out[0, -64:, -64:], a[0, -64:].double() @ b[0, :, -64:].double())
    assert (out[0, : m - 64, -64:] == 0).all()
    assert (out[0, -64:, : n - 64] == 0).all()


@pytest.mark.parametrize("groups", [2, 129])
def test_grouped_products_beyond_32_bits(groups: int) -> None:
    """Of very many rows, and of very many matrices."""
    depth = 4096
    rows, columns = (FAR // depth + 100, 64) if groups == 2 else (300, 4096)
    a, b = zeros(rows, depth), zeros(groups, depth, columns)
    a[-200:], b[-2:] = normal(200, depth), normal(2, depth, columns, seed=1)
    ends = [*[rows - 200] * (groups - 2), rows - 90, rows]
    out = OPS.grouped_matmul(a, b, ints(*ends))
    expect(out[-200:-90], a[-200:-90].double() @ b[-2].double())
    expect(out[-90:], a[-90:].double() @ b[-1].double())
    assert (out[:-200] == 0).all()


def test_classes_beyond_32_bits() -> None:
    """Losses of rows and their gradients."""
    classes = 131072
    rows = FAR // classes + 64
    x = zeros(rows, classes)
    x[-64:] = 4 * normal(64, classes)
    target = torch.arange(rows, device="cuda") * 7919 % classes
    loss, lse = OPS.cross_entropy.full(x, target, reduction="none")
    wide = x[-64:].double()
    torch.testing.assert_close(lse[-64:].double(), wide.logsumexp(-1), rtol=1e-5, atol=1e-5)
    want = torch.nn.functional.cross_entropy(wide, target[-64:], reduction="none")
    expect(loss[-64:], want)
    grad = torch.ones_like(loss)
    got = OPS.cross_entropy_backward(grad, x, target, lse, reduction="none")[-64:]
    want = wide.softmax(-1)
    want[torch.arange(64, device="cuda"), target[-64:]] -= 1
    expect(got, want)


def test_tables_beyond_32_bits() -> None:
    dims = 4096
    rows = FAR // dims + 7
    table = zeros(rows, dims)
    table[-64:] = normal(64, dims)
    indices = rows - 1 - torch.arange(64, device="cuda") * 5 % 64
    assert torch.equal(OPS.embedding(table, indices), table[indices])

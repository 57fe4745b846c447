"""The argument `backend` of TileGym's operators says what runs."""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tilewright.compat import coverage, tilegym
from tilewright.compat.tilegym import flashinfer, liger

import tilewright

SUITES = ("tilegym", "tilegym.liger", "tilegym.unsloth", "tilegym.flashinfer")
A, B, W = torch.randn(2, 3, 16), torch.randn(2, 3, 16), torch.randn(16)
Q, K, V = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
K4 = torch.randn(1, 4, 5, 8)
QPE, KPE = torch.randn(1, 4, 5, 4), torch.randn(1, 1, 5, 4)
ONE = (Q[:, :, 0], QPE[:, :, 0], K[:, 0], KPE[:, 0])  # of latent attention
TABLES = (torch.randn(1, 5, 8), torch.randn(1, 5, 8))
SINK = (torch.randn(1, 5, 2, 2, 8), K.transpose(1, 2), V.transpose(1, 2), torch.randn(4))
IDS = torch.tensor([[0, 2], [1, 0], [2, 1]], dtype=torch.int32)
SHARES = torch.rand(3, 2)
RULE = (torch.rand(1, 8, 2, 4), torch.rand(1, 8, 2, 4), torch.rand(1, 8, 2, 4))
GATES = (-torch.rand(1, 8, 2), torch.rand(1, 8, 2))
MODULE = types.SimpleNamespace(sinks=SINK[3], is_causal=True)
HEADS = types.SimpleNamespace(head_dim=8, num_key_value_groups=2, training=False)
CONFIG = types.SimpleNamespace(hidden_size=16, intermediate_size=8)
MAMBA = (
    torch.rand(1, 8, 2, 4),
    -torch.rand(2),
    torch.rand(1, 8, 1, 4),
    torch.rand(1, 8, 1, 4),
    torch.rand(2),
    torch.rand(1, 8, 2),
    torch.rand(1, 2, 4, 4),
)


def experts_kernel(backend: str) -> None:
    x, w, out = torch.randn(3, 16), torch.randn(3, 8, 16), torch.empty(3, 2, 8)
    order, blocks, count, *_ = tilegym.moe_align_block_size(IDS, 4, 3, backend=backend)
    tilegym.invoke_fused_moe_kernel(
        x,
        w,
        out,
        None,
        None,
        SHARES,
        IDS,
        order,
        blocks,
        count,
        True,
        2,
        {},
        None,
        False,
        backend=backend,
    )


def activation_gradients(backend: str) -> None:
    order = IDS.flatten().argsort(stable=True).int()
    made = (torch.empty(6, 8), torch.empty(6), None, None, torch.empty(6, 4), SHARES.flatten())
    places = (torch.tensor([0, 2, 4, 6], dtype=torch.int32), order // 2, order)
    given = (torch.randn(3, 16), torch.randn(6, 8), torch.randn(3, 4, 16))
    tilegym.moe_actgrad_bwd(*given, *made, *places, "swiglu", backend=backend)


# Calls of every operator: a function's positional arguments, or what calls it.
CALLS: dict[str, tuple[Any, ...] | Callable[[str], Any]] = {
    "PartiallyFusedGEGLUMLP": lambda b: None,
    "PartiallyFusedSwiGLUMLP": lambda b: None,
    "apply_rope_base": (Q, K, *TABLES),
    "attention_sink": SINK,
    "attention_sink_decode": SINK,
    "attention_sink_ref": SINK,
    "attention_sink_interface": SINK,
    "bmm": (A, B.mT),
    "chunk_gated_delta_rule": (*RULE, *GATES),
    "dropout": (A, 1),
    "fmha": (Q, K, V),
    "fmha_backward": (Q, K4, K4, Q, Q, torch.randn(1, 4, 5), 0.5),
    "fmha_decode": (Q[:, :, :1], K, V, 0.5),
    "fmha_forward_with_lse": (Q, K, V, None),
    "fmha_interface": (Q, K, V),
    "fmha_variant": (Q, K, V),
    "fmha_varlen": (Q, K, V),
    "fused_linear_cross_entropy": (A, torch.randn(7, 16), torch.zeros(2, 3, dtype=torch.int64)),
    "fused_experts_impl": (
        A[0].half(),
        torch.randn(3, 16, 16).half(),
        torch.randn(3, 16, 8).half(),
        SHARES,
        IDS,
    ),
    "fused_moe_torch": (A[0], torch.randn(3, 8, 16), None, SHARES, IDS, True),
    "fused_moe": (
        A[0].half(),
        torch.randn(3, 16, 16).half(),
        torch.randn(3, 16, 8).half(),
        SHARES,
        IDS,
    ),
    "geglu": (A,),
    "gelu": (A,),
    "gemma3_eager_attention_forward": (HEADS, Q, K, V, None),
    "gemma_attention": (Q, K, V),
    "gemma_attention_decode": (Q[:, :, :1], K, V),
    "get_apply_rope_func": lambda b: tilegym.get_apply_rope_func(backend=b)(Q, K, *TABLES),
    "get_attention_sink_interface": lambda b: tilegym.get_attention_sink_interface(b)(
        MODULE, Q, K, V, None, 0.5
    ),
    "get_fmha_gemma3_interface": lambda b: tilegym.get_fmha_gemma3_interface(b)(
        MODULE, Q, K, V, None
    ),
    "get_fmha_interface": lambda b: tilegym.get_fmha_interface(b)(MODULE, Q, K, V, None),
    "get_fused_swiglu_module": lambda b: tilegym.get_fused_swiglu_module(backend=b)(
        CONFIG
    ).requires_grad_(False)(A),
    "get_rms_norm_module": lambda b: tilegym.get_rms_norm_module(backend=b)(16).requires_grad_(
        False
    )(A),
    "get_swiglu": lambda b: tilegym.get_swiglu(backend=b)(A, B),
    "get_swiglu_module": lambda b: tilegym.get_swiglu_module(backend=b)(CONFIG).requires_grad_(
        False
    )(A),
    "group_gemm": ([A[0]], [B[0].T]),
    "invoke_fused_moe_kernel": experts_kernel,
    "layer_norm": (A, 2, 3, W, W, 1e-5),
    "layer_norm_legacy": (A, (16,), W, W, 1e-5),
    "linear_gluact_linear": (A, B[0], B[1], torch.randn(5, 3)),
    "mamba2_chunk_backward": (*MAMBA, MAMBA[0], MAMBA[-1], 8),
    "mamba2_chunk_forward": (*MAMBA, 8),
    "matmul": (A[0], B[0].T),
    "mhc_apply_residual": (torch.randn(3, 8), torch.randn(3, 4), torch.randn(3, 8), 2),
    "mhc_gemm_rms_scale": (torch.randn(3, 8), torch.randn(8, 8), 2, 1.0, 1.0, 1.0, torch.randn(8)),
    "mhc_sinkhorn": (torch.randn(3, 8), 2),
    "mla": (Q, K4, K4, QPE, KPE, True),
    "mla_decoding": ONE,
    "mla_decoding_interface": (*ONE, None, None),
    "mla_decoding_split_kv": ONE,
    "mla_interface": (Q, K4, K4, QPE, KPE, True),
    "moe_actgrad_bwd": activation_gradients,
    "moe_align_block_size_torch": (IDS, 4, 3),
    "moe_align_block_size": (IDS, 4, 3),
    "nvfp4_quantize": (torch.randn(128, 64),),
    "persistent_layer_norm": (A, (16,), W, W, 1e-5),
    "recurrent_gated_delta_rule": (*RULE, *GATES),
    "relu": (A,),
    "rms_norm": (A, (16,), W, 1e-5, W),
    "silu_and_mul": lambda b: tilegym.silu_and_mul(A, torch.empty(2, 3, 8), backend=b),
    "softmax": (A,),
    "sparse_mla": (
        Q,
        K,
        V,
        torch.zeros(1, 5, 2, 3, dtype=torch.int32),
        QPE,
        KPE,
        False,
    ),
    "splitk_reduce": (torch.randn(1, 4, 3, 8), torch.randn(1, 4, 3), torch.empty(1, 4, 8), 3),
    "swa_attention": (Q, K, V, 3),
    "tile_fmha_functional": (Q, K, V),
    "tile_fmha_with_backward": (Q, K, V),
    "transpose": (A[0],),
    "w8a8_block_fp8_matmul": (
        torch.randn(4, 128).to(torch.float8_e4m3fn),
        torch.randn(8, 128).to(torch.float8_e4m3fn),
        torch.rand(4, 1),
        torch.rand(1, 1),
    ),
    "liger.jsd": (A[0], B[0].log_softmax(-1)),
    "liger.group_norm": (A.view(2, 4, 12), 4, 2, W[:4], W[:4]),
    "flashinfer.masked_bmm": (
        A.bfloat16(),
        B.mT.bfloat16(),
        torch.tensor([3, 2], dtype=torch.int32),
    ),
}
HERE = torch.get_default_device().type  # the backend of the tensors above
# Which differentiate within the call: the definitions have no gradients.
DIFFERENTIATE = {"mamba2_chunk_backward", "moe_actgrad_bwd"}
MODULES = {"PartiallyFusedGEGLUMLP", "PartiallyFusedSwiGLUMLP"}  # classes, which take no backend


@pytest.fixture(autouse=True)
def no_fallback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DISABLE_FALLBACK", "1")
    yield
    tilewright.set_backend(HERE)


def run(name: str, backend: str) -> set[str]:
    """The backends that a call of an operator on this one makes."""
    call = CALLS[name]
    suite, _, own = name.rpartition(".")
    function = getattr({"": tilegym, "liger": liger, "flashinfer": flashinfer}[suite], own)
    with tilewright.explain() as e:
        call(backend) if callable(call) else function(*call, backend=backend)
    return {record.backend for record in e.records}


def test_each_operator_has_a_call() -> None:
    assert set(coverage()["tilegym"].provided) == {name for name in CALLS if "." not in name}


@pytest.mark.parametrize("backend", [HERE, "cutile", "reference", "torch", "pytorch"])
@pytest.mark.parametrize("name", [name for name in CALLS if name not in MODULES])
def test_the_named_backend_runs(name: str, backend: str) -> None:
    want = {"cutile": HERE, "pytorch": "torch"}.get(backend, backend)
    if name in DIFFERENTIATE and want == "reference":
        with pytest.raises(NotImplementedError, match=r"no kernel for backend|has no gradient"):
            run(name, backend)
        return
    assert run(name, backend) == {want}


@pytest.mark.parametrize("suite", SUITES)
def test_an_unknown_backend_is_refused(suite: str) -> None:
    names = set(coverage([suite])[suite].provided) - MODULES
    module = {"tilegym": tilegym}.get(suite) or getattr(tilegym, suite.rpartition(".")[2])
    for name in names:
        with pytest.raises(ValueError, match="there is no backend 'julia'"):
            getattr(module, name)(backend="julia")


def test_a_call_overrules_the_current_backend() -> None:
    tilewright.set_backend("reference")
    assert run("softmax", "cutile") == {HERE}
    with tilewright.explain() as e:
        tilegym.softmax(A)
    assert e.records[0].backend == "reference"
    other = "cuda" if HERE == "cpu" else "cpu"
    with pytest.raises(NotImplementedError, match=rf"Candidates: .*{HERE}: available"):
        tilegym.softmax(A, backend=other)


def test_is_traced() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return tilegym.softmax(tilegym.softmax(x, backend="torch"))

    graphs: list[str] = []

    def keep(graph: torch.fx.GraphModule, _example: Any) -> Callable[..., Any]:
        graphs.append(graph.code)
        return graph.forward

    compiled = torch.compile(function, fullgraph=True, backend=keep)
    torch.testing.assert_close(compiled(A), A.softmax(-1).softmax(-1))
    assert graphs[0].count("tilewright.softmax") == 1


class Records(logging.Handler):
    """What loggers of these names write."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.files: set[str] = set()
        for name in names:
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.files.add(record.filename)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    monkeypatch.setattr("tilewright.compat.tilegym._backends.registered", {})
    yield tilegym.backend
    tilegym.set_backend("cutile")


def test_an_own_implementation_runs_where_it_is_named(registry: types.ModuleType) -> None:
    @registry.register_impl("relu", "mine")
    def negated(x: torch.Tensor) -> torch.Tensor:
        return -x

    assert torch.equal(tilegym.relu(A, backend="mine"), -A)
    assert torch.equal(tilegym.relu(A), A.relu())
    assert registry.has_backend_impl("relu", "mine")
    assert not registry.has_backend_impl("gelu", "mine")
    assert registry.get_available_backends_for_op("relu")[-1] == "mine"
    registry.register_impl("relu", "torch")(negated)
    tilegym.set_backend("torch")
    assert torch.equal(tilegym.relu(A), -A)


def test_a_dispatched_function_runs_what_is_registered(
    registry: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records("tilegym")
    monkeypatch.delenv("DISABLE_FALLBACK", raising=False)

    @registry.dispatch("twice", fallback_backend="slow")
    def twice(x: int) -> str:
        return f"default {2 * x}"

    assert twice(3) == "default 6"
    assert twice(3) == "default 6"
    (warning,) = records.messages
    assert "has no implementation of 'twice'" in warning
    registry.register_impl("twice", "slow")(lambda x: f"slow {x + x}")
    registry.register_impl("twice", "cutile")(lambda x: f"cutile {x << 1}")
    assert (twice(3), twice(3, backend="triton")) == ("cutile 6", "slow 6")
    monkeypatch.setenv("DISABLE_FALLBACK", "1")
    with pytest.raises(NotImplementedError, match="'triton' has no implementation of 'twice'"):
        twice(3, backend="triton")


def test_the_registry_tells_what_runs(
    registry: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register_impl("softmax", "mine")(torch.softmax)
    info = registry.get_registry_info()
    assert info["softmax"]["cutile"] == "tilewright.compat.tilegym.softmax"
    assert info["softmax"]["mine"].endswith("softmax")
    assert {"cutile", "reference"} <= info["fmha"].keys()
    assert registry.has_backend_impl("fmha", "cutile")
    assert not registry.has_backend_impl("nothing", "cutile")
    assert registry.get_available_backends_for_op("exp") == (
        tilewright.get_available_backends_for_op("exp")
    )
    with pytest.raises(ValueError, match="nothing"):
        registry.get_available_backends_for_op("nothing")
    registry.print_registry_info()
    assert "fmha\n  cutile: tilewright.compat.tilegym.fmha\n" in capsys.readouterr().out


def test_dispatcher_and_selector_are_where_tilegym_has_them() -> None:
    from tilewright.compat.tilegym.backend.dispatcher import register_impl
    from tilewright.compat.tilegym.backend.selector import get_current_backend

    assert register_impl is tilegym.backend.register_impl
    assert get_current_backend is tilegym.backend.get_current_backend


def test_loggers_warn_once() -> None:
    records = Records("tests.once", "tilegym")
    logger = tilegym.logger.get_logger("tests.once")
    for _ in range(3):
        logger.warn_once("odd", category="SHAPE")
        logger.warn_limited("even", max_count=2)
        tilegym.logger.warn_once("by the module")
    logger.warning("three", 4, [5])
    assert records.messages == ["[SHAPE] odd", "even", "by the module", "even", "three 4 [5]"]
    assert records.files == {"test_tilegym_backends.py"}

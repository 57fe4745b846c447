"""Kernels are compiled for GPUs that are not here, kept, and made anew when they are damaged."""

from __future__ import annotations

import concurrent.futures
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run_tool

ELF_MACHINE_CUDA = 190
QUICK = {"TILEWRIGHT_NVRTC_OPTIONS": "--Ofast-compile=max"}  # where many or large ones are compiled
RELU = ("relu", "--variant", "way0")  # one kernel, of aligned rows


def compile_for(
    arch: str, *arguments: object, cache: Path, **variables: str
) -> list[dict[str, object]]:
    """Runs cuda-compile with NVRTC of this Python's environment."""
    result = run_in(cache, arch, *arguments, "--json", **variables)
    assert result.returncode == 0, result.stderr
    out = json.loads(result.stdout)
    assert out["arch"] == arch
    return out["kernels"]


def run_in(
    cache: Path, arch: str, *arguments: object, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "VIRTUAL_ENV": sys.prefix,
        "TILEWRIGHT_CACHE_DIR": str(cache),
        **variables,
    }
    return run_tool("cuda-compile", "--arch", arch, *arguments, env=environment)


def elf_architecture(cubin: bytes) -> int:
    """The sm_ number in the header of a cubin; since CUDA 13 it is a byte further up."""
    assert cubin[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", cubin, 18)[0] == ELF_MACHINE_CUDA
    flags = struct.unpack_from("<I", cubin, 48)[0]
    return flags >> 8 & 0xFF if cubin[8] >= 8 else flags & 0xFF


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_cubins_of_operators(tmp_path: Path, arch: str) -> None:
    """A row kernel, one that is prepared on the host, one behind a chain of headers, a product."""
    ops = ["rms_norm", "sum", "gelu", "matmul"]
    given = [*ops, "--dtype", "bf16", "--out", tmp_path / "out"]
    kernels = compile_for(arch, *given, cache=tmp_path, **QUICK)
    rows = ["way0", "way1"]  # aligned, or not
    ways = {"rms_norm": rows, "sum": [*rows, "way2", "way3"], "gelu": rows, "matmul": [""]}
    assert [(kernel["op"], kernel["variant"]) for kernel in kernels] == [
        (op, way) for op in ops for way in ways[op]
    ]
    symbols = {
        "rms_norm": b"10cuda_entry3runENS_7kernels7RmsNormINS_4bf16EEE",
        "sum": b"10cuda_entry3runENS_7kernels3SumINS_4bf16ELb0EE8PreparedI",
        "gelu": b"10cuda_entry3runENS_7kernels15GeluElementwiseINS_4bf16EE",
        "matmul": b"10cuda_entry8gemm_mmaILi",
    }
    for kernel in kernels:
        name = "-".join(filter(None, [str(kernel["op"]), "bf16", str(kernel["variant"]), arch]))
        cubin = (tmp_path / "out" / f"{name}.cubin").read_bytes()
        assert len(cubin) == kernel["bytes"]
        assert elf_architecture(cubin) == int(arch.removeprefix("sm_"))
        assert symbols[str(kernel["op"])] in cubin
        assert cubin in Path(str(kernel["path"])).read_bytes()


@pytest.mark.parametrize(
    ("dtypes", "chosen"),
    [
        ("bf16/bf16", ""),
        ("bf16/f8_e4m3fn", "scores0,build1,build5"),
        ("f16/i8", "build0,scores1,build6"),
    ],
)
def test_attention_on_hopper(tmp_path: Path, dtypes: str, chosen: str) -> None:
    """Kernels that the library does not carry: they add to scores, or keys have 8 bits."""
    only = ["--variant", chosen] if chosen else []
    given = ["attention", "--dtype", dtypes, *only]
    kernels = compile_for("sm_90a", *given, cache=tmp_path, **QUICK)
    variants = [str(kernel["variant"]) for kernel in kernels]
    if chosen:
        assert variants == chosen.split(",")
    else:
        assert variants[0] == ""
        assert len(set(variants)) == len(variants) > 4
        assert len(compile_for("sm_90", *given, cache=tmp_path, **QUICK)) == 1
    for kernel in kernels[not chosen :]:
        assert b"10cuda_entry9attentionE" in Path(str(kernel["path"])).read_bytes()


def test_attention_on_hopper_with_programs(tmp_path: Path) -> None:
    """Of heads of 128 dims and of 256: plain, with biases, what finds the blocks left."""
    kinds = {kind + build for kind in ("build", "scores", "seen") for build in ("6", "10")}
    given = ["attention", "--dtype", "bf16/bf16", "--score-mod", "score - k", "--mask-mod"]
    given += ["q >= k", "--variant", ",".join(kinds)]
    modified = compile_for("sm_90a", *given, cache=tmp_path, **QUICK)
    assert not any(kernel["was_cached"] for kernel in modified)
    assert {str(kernel["variant"]) for kernel in modified} == kinds
    refused = run_in(tmp_path, "sm_90", *given)
    assert refused.returncode == 2
    assert "no kernel of these operators has these dtypes, or is this variant" in refused.stderr


def test_kept_and_verified(tmp_path: Path) -> None:
    def compiled(**variables: str) -> dict[str, object]:
        (kernel,) = compile_for("sm_80", *RELU, "--dtype", "f32", cache=tmp_path, **variables)
        return kernel

    first = compiled()
    assert not first["was_cached"]
    assert compiled()["was_cached"]
    path = Path(str(first["path"]))
    assert path.parent == tmp_path / "cuda"
    good = path.read_bytes()
    for bad in (good[:-1], good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], b""):
        path.write_bytes(bad)
        assert not compiled()["was_cached"]
        assert path.read_bytes() == good
    (other,) = compile_for("sm_90", *RELU, "--dtype", "f32", cache=tmp_path)
    assert other["path"] != first["path"]
    refused = run_in(tmp_path, "sm_80", "relu", TILEWRIGHT_JIT="0")
    assert refused.returncode == 4
    assert "TILEWRIGHT_JIT=0" in refused.stderr


def test_processes_at_a_time(tmp_path: Path) -> None:
    """One of them compiles, the others wait for it."""

    def compiled(_: int) -> bool:
        (kernel,) = compile_for("sm_80", *RELU, "--dtype", "f16", cache=tmp_path)
        return bool(kernel["was_cached"])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(compiled, range(4))) == [False, True, True, True]


def test_refusals(tmp_path: Path) -> None:
    for arguments, code, complaint in [
        (("sm_80", "linear_packed"), 4, "linear_packed has no kernels for GPUs"),
        (("sm_80", "relu", "--dtype", "i8"), 2, "no kernel of these operators has these dtypes"),
        (("sm_80", "nothing"), 2, "there is no operator nothing"),
        (("sm_35", "relu"), 4, "does not compile for sm_35; it knows sm_"),
        (("-o/etc/x", "relu"), 2, "'-o/etc/x' is not an architecture"),
    ]:
        result = run_in(tmp_path, *arguments)
        assert (result.returncode, complaint in result.stderr) == (code, True), result.stderr


def test_options_of_ones_own(tmp_path: Path) -> None:
    """They are told apart in the cache; one that NVRTC does not know says so."""
    (plain,) = compile_for("sm_80", *RELU, "--dtype", "f32", cache=tmp_path)
    (quick,) = compile_for("sm_80", *RELU, "--dtype", "f32", cache=tmp_path, **QUICK)
    assert not quick["was_cached"]
    assert quick["path"] != plain["path"]
    assert Path(str(quick["path"])).read_bytes() != Path(str(plain["path"])).read_bytes()
    wrong = run_in(tmp_path, "sm_80", *RELU, TILEWRIGHT_NVRTC_OPTIONS="-lineinfo --no-such-option")
    assert wrong.returncode != 0
    assert "--no-such-option" in wrong.stderr


def test_without_nvrtc(tmp_path: Path) -> None:
    """The error says what was looked for, and how to get it."""
    result = run_in(tmp_path, "sm_80", "relu", TILEWRIGHT_NVRTC="/nowhere/libnvrtc.so")
    assert result.returncode == 4
    assert "relu: this library carries no kernel for sm_80" in result.stderr
    assert "looked for /nowhere/libnvrtc.so" in result.stderr
    assert "pip install nvidia-cuda-nvrtc" in result.stderr
    not_nvrtc = run_in(tmp_path, "sm_80", "relu", TILEWRIGHT_NVRTC="libm.so.6")
    assert "libm.so.6 (it is too old: it has no nvrtcVersion)" in not_nvrtc.stderr


def test_programs_of_scores(tmp_path: Path) -> None:
    """Every operation, printed and compiled."""
    score = (
        "where(k // 3 < h, min(score, 1.5) + max(-q, b) % 7 - exp(score) / exp2(k), tanh(score)) "
        "+ log(score) * log2(abs(score) + 1.0) - sqrt(sigmoid(score)) + floor(mod_f32[k - q])"
    )
    mask = "(q >= k or not mod_i32[q] == mod_i32[k]) and (q_len < kv_len + 2 * abs(b - 1) or False)"
    given = ["attention", "--dtype", "bf16/bf16", "--score-mod", score, "--mask-mod", mask]
    (kernel,) = compile_for("sm_80", *given, cache=tmp_path, **QUICK)
    assert not kernel["was_cached"]
    again = compile_for("sm_80", *given, cache=tmp_path, **QUICK)
    assert all(kernel["was_cached"] for kernel in again)
    refused = run_in(tmp_path, "sm_80", "rms_norm", "--score-mod", "score")
    assert refused.returncode != 0
    assert "rms_norm takes no score_mod" in refused.stderr

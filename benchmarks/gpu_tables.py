"""The tables of what was measured on a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tables import table

LIMITS = Path(__file__).parent / "results" / "gpu_limits.json"
# What multiplies operands of a dtype: float32 as tf32 has its own.
ARITHMETIC = {
    "bf16": "tensor cores, bf16, random",
    "f16": "tensor cores, f16, random",
    "f32": "f32 multiply-add",
    "tf32": "tensor cores, tf32, random",
    "f8_e4m3fn": "tensor cores, e4m3, random",
    "i8": "tensor cores, int8, random",
}


def with_card(
    results: list[dict[str, Any]], heads: list[str], rows: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """Beside each row the clock and the power under it, where they were measured."""
    if not any("clock_mhz" in row for row in results):
        return heads, rows
    cards = [
        f"{row['clock_mhz']:.0f} MHz, {row['power_w']:.0f} W" if "clock_mhz" in row else ""
        for row in results
    ]
    return [*heads, "card"], [[*row, card] for row, card in zip(rows, cards, strict=True)]


def _of_limit(seconds: float, flops: float, moved: float, dtype: str) -> str:
    """How near a call is to what the card needs to calculate, or to read, at least."""
    limits = json.loads(LIMITS.read_text())["gpu"]["limits"]
    least = flops / limits[ARITHMETIC[dtype]]["value"] * 1e-12
    least = max(least, moved / limits["read memory"]["value"] * 1e-9)
    return f"{100 * least / seconds:.0f} %"


def _product_of_limit(row: dict[str, Any]) -> str:
    """Of a product that has to read its weight."""
    ours = row["seconds"]["ours"]
    return _of_limit(ours, row["flops"], row.get("weight_bytes", 0), row["dtype"])


def _rate_of_limit(row: dict[str, Any], dtype: str) -> str:
    """By pairs that are visible, where rates count others, too; decoding by what it reads."""
    ours = row["seconds"]["ours"]
    work = row["rates"]["ours"] * ours * 1e12
    if row.get("unit") == "TB/s":
        return _of_limit(ours, 0, work, dtype)
    return _of_limit(ours, work * row.get("visible", 1), row.get("bytes", 0), dtype)


def gpu_limits(data: dict[str, Any]) -> str:
    """One row for each limit of the GPU, with the clock and the power under it; then occupancy."""
    gpu = data["gpu"]
    about = (
        f"{gpu['name']}, {gpu['multiprocessors']} multiprocessors; tilewright {data['version']}. "
        "Clock and power are those under the row's own load."
    )
    rows = []
    for name, row in gpu["limits"].items():
        rows.append([name, f"{row['value']:.4g} {row['unit']}"])
    shown = table(about, *with_card(list(gpu["limits"].values()), ["limit", ""], rows))
    if not gpu["resident"]:
        return shown
    resident = [
        [str(row["threads"]), str(row["registers"]), f"{row['shared_bytes'] >> 10} KiB",
         str(row["blocks"])]
        for row in gpu["resident"]
    ]  # fmt: skip
    heads = ["threads", "registers", "shared memory", "blocks"]
    return f"{shown}\n{table('Blocks that a multiprocessor has at once:', heads, resident)}"


PEERS = {"torch": "PyTorch", "torch.compile": "torch.compile", "liger": "Liger"}


def _memory_bound(
    data: dict[str, Any], about: str, cell: Callable[[dict[str, Any], str], str]
) -> str:
    """One row for each operator and shape, with what `cell` says of ours and of each peer."""
    gpu, results = data["machine"], data["results"]
    names = [name for name in PEERS if any(name in row["seconds"] for row in results)]
    heads = ["operator", "shape", "tilewright", "of copy", *(PEERS[name] for name in names)]
    rows = []
    for row in results:
        seconds = row["seconds"]
        shape = " x ".join(map(str, row["shape"]))
        best = min(s for name, s in seconds.items() if name != "ours")
        cells = [cell(row, name) if name in seconds else "" for name in names]
        rows.append([row["op"], shape, cell(row, "ours"), f"{100 * row['fraction_of_copy']:.0f} %",
                     *cells, f"{best / seconds['ours']:.2f} x"])  # fmt: skip
    liger = gpu.get("liger", "absent")
    about = (
        f"{gpu['gpu']}; bf16; tilewright {gpu['tilewright']}, PyTorch {gpu['torch']}, Liger Kernel "
        f"{liger}. {about} Measured copy: {gpu['copy_gbs']:.0f} GB/s."
    )
    return table(about, *with_card(results, [*heads, "against the best"], rows))


def gpu_memory_bound(data: dict[str, Any]) -> str:
    """Large shapes, whose bandwidth is what counts."""
    return _memory_bound(
        data,
        "GB/s of what must be moved; of gradients, PyTorch's are the kernels of its autograd.",
        lambda row, name: f"{row['bytes'] / row['seconds'][name] * 1e-9:.0f}",
    )


def gpu_few_rows(data: dict[str, Any]) -> str:
    """From 1 to 64 rows, whose time is what counts."""
    return _memory_bound(
        data,
        "Microseconds, by graphs; operands may lie in the cache.",
        lambda row, name: f"{row['seconds'][name] * 1e6:.2f}",
    )


def gpu_gemm(data: dict[str, Any]) -> str:
    """One row for each product beside cuBLAS; products in groups beside torch._grouped_mm."""
    gpu = data["machine"]
    about = (
        f"bf16 (f32: float32; tf32: float32 as tf32), {gpu['gpu']}, cuBLAS through PyTorch "
        f"{gpu['torch']}; m x n x k, nt: rows of the weight along k; of gated layers and addends "
        "what PyTorch does around cuBLAS. Limits: see above."
    )
    heads = ["product", "tilewright", "of limit", "of aligned sizes' speed",
             "cuBLAS; in groups torch._grouped_mm"]  # fmt: skip
    rows = []
    for row in data["results"]:
        ours, peer = (f"{row['flops'] / row['seconds'][who] * 1e-12:.1f} TFLOP/s, "
                      f"{row['seconds'][who] * 1e6:.1f} us" for who in row["seconds"])  # fmt: skip
        near = f"{row['of_neighbour']:.2f}, {row['neighbour']}" if "neighbour" in row else ""
        rows.append([row["case"], ours, _product_of_limit(row), near, peer,
                     f"{row['ratio']:.2f} x"])  # fmt: skip
    return table(about, *with_card(data["results"], [*heads, "against it"], rows))


def _weights(data: dict[str, Any], about: str, prefix: str) -> str:
    """One row for each product, with the rate at which its weight is read."""
    rows = []
    for row in data["results"]:
        ours, *peers = row["seconds"].values()
        rates = [f"{row['flops'] / s * 1e-12:.0f} TFLOP/s, {s * 1e6:.1f} us"
                 for s in (ours, peers[0])]  # fmt: skip
        rows.append([row["case"].removeprefix(prefix), rates[0],
                     f"{row['weight_bytes'] / ours * 1e-12:.2f} TB/s", _product_of_limit(row),
                     rates[1],
                     f"{row['ratio']:.2f} x"])  # fmt: skip
    heads = ["product", "tilewright", "weights", "of limit", "peer", "against it"]
    return table(f"{about}; m x n x k.", *with_card(data["results"], heads, rows))


def gpu_gemm_fp8(data: dict[str, Any]) -> str:
    """Products of e4m3 and int8, beside what PyTorch has for them."""
    about = data["machine"]
    return _weights(
        data,
        f"e4m3 to float32, {about['gpu']}, peers through PyTorch {about['torch']}: `_scaled_mm` "
        "(cuBLAS), in groups `_grouped_mm` of bf16, of routed experts, whose rows are gathered and "
        "whose gate and up or weights are in the kernel, `_scaled_grouped_mm` and what goes around "
        "it; of int8 `_int_mm`, which has no scales; int32: "
        "`int_matmul`, which has none either",
        "fp8 ",
    )


def gpu_gemm_weights(data: dict[str, Any]) -> str:
    """Linear layers of narrow weights, beside the same of bf16 weights."""
    about = data["machine"]
    return _weights(
        data,
        f"bf16 times weights of 4 and 8 bits in groups of 128 with zero points (`linear_int4`, "
        f"`linear_int8`), {about['gpu']}; the peer is cuBLAS through PyTorch {about['torch']} with "
        "bf16 weights",
        "",
    )


def _has_limits(gpu: str) -> bool:
    return bool(json.loads(LIMITS.read_text())["gpu"]["name"] == gpu)


def gpu_rates(data: dict[str, Any], dtype: str = "") -> str:
    """One row for each shape, beside its peers; the memory that each takes, where it is known.

    `dtype` is what is multiplied, where that is not what the results are of.
    """
    gpu = data["machine"]
    names = list(dict.fromkeys(name for row in data["results"] for name in row["rates"]))
    about = f"{gpu['gpu']}, {gpu['dtype']}; PyTorch {gpu['torch']}, cuDNN {gpu['cudnn']}."
    if "copy_tbs" in gpu:
        about += f" Measured copy: {gpu['copy_tbs']:.2f} TB/s."
    of_copy = not _has_limits(gpu["gpu"])
    if of_copy:
        about += (
            " Of limit: decoding of that, the rest of an H100's tensor cores, which are the same."
        )
    rows = []
    for row in data["results"]:
        rates = row["rates"]
        digits = 2 if row.get("unit") == "TB/s" else 0
        cells = [f"{rates[name]:.{digits}f}" if name in rates else "" for name in names]
        if memory := row.get("memory"):
            sizes = (f" ({memory[name] / 2**30:.2f} GiB)" for name in names)
            cells = [cell + size for cell, size in zip(cells, sizes, strict=True)]
        peers = [rate for name, rate in rates.items() if name != "ours"]
        ratio = f"{rates['ours'] / max(peers):.2f} x" if peers else ""
        limit = _rate_of_limit(row, dtype or gpu["dtype"])
        if of_copy and row["unit"] == "TB/s":
            limit = f"{100 * row['fraction_of_copy']:.0f} %"
        rows.append([row["name"], row["unit"], cells[0], limit, *cells[1:], ratio])
    heads = ["shape", "unit", names[0], "of limit", *names[1:], "against the best"]
    return table(about, *with_card(data["results"], heads, rows))


def gpu_experts(data: dict[str, Any]) -> str:
    """One row for each layer and number of tokens: beside its products alone, and PyTorch."""
    gpu = data["machine"]
    about = (
        f"{gpu['gpu']}, {gpu['dtype']}; microseconds of `fused_experts`, of its two products "
        f"alone, and of PyTorch {gpu['torch']} (`_grouped_mm` and the same steps around it)."
    )
    heads = ["layer", "tilewright", "of limit", "products alone", "PyTorch",
             "of the products' speed"]  # fmt: skip
    rows = []
    for row in data["results"]:
        seconds = row["seconds"]
        ours, bound, torch = (seconds[name] for name in ("ours", "products", "torch"))
        cells = [f"{s * 1e6:.0f}" for s in (ours, bound, torch)]
        limit = _rate_of_limit(row, gpu["dtype"])
        rows.append(
            [
                row["name"],
                cells[0],
                limit,
                *cells[1:],
                f"{bound / ours:.2f}",
                f"{torch / ours:.2f} x",
            ]
        )
    return table(about, *with_card(data["results"], [*heads, "against it"], rows))


def gpu_profiles(data: dict[str, Any]) -> str:
    """One row for each kernel of a profiled call that takes a tenth of it or more."""
    about = (
        f"{data['machine']['gpu']}, Nsight Compute at its base clock (`benchmarks/gpu/"
        "profile_cases.py`); per cent of the peak, of stalls those of the time of warps."
    )
    rows = []
    for row in data["results"]:
        whole = sum(kernel["duration_us"] for kernel in row["kernels"])
        for kernel in row["kernels"]:
            if kernel["duration_us"] < 0.1 * whole:
                continue
            stalls, of = kernel["stalls"], kernel["throughput"] | kernel["pipes"]
            most = sorted(stalls, key=stalls.__getitem__, reverse=True)[:3]
            shares = (f"{of[x]:.0f}" if x in of else "" for x in ("tensor", "dram", "issue"))
            rows.append([row["case"], _short(kernel["kernel"]), f"{kernel['duration_us']:.1f} us",
                         *shares,
                         ", ".join(f"{name} {stalls[name]:.0f}" for name in most)])  # fmt: skip
    heads = ["call", "kernel", "time", "tensor pipe", "DRAM", "issue slots", "top stalls"]
    return table(about, heads, rows)


def _short(kernel: str) -> str:
    """A kernel's name without namespaces, what it is instantiated for and its parameters."""
    words = re.split(r"[<(]", kernel.removeprefix("void "))
    return str(words[0].split("::")[-1])

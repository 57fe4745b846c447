"""The README's table of how all that was measured stands beside its peers."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpu_tables import PEERS as GPU_PEERS
from tables import table

# What the suites of benchmarks/run.py are about.
SUITES = {
    "peers.json": "operators",
    "peers_doors.json": "operators, memory reused",
    "peers_doors_new_memory.json": "operators, memory new",
    "peers_float16.json": "operators of float16",
    "peers_training.json": "operators with their gradients",
    "peers_training_new_memory.json": "operators with their gradients, memory new",
    "peers_attention.json": "attention, 512 to 4096 keys, caches, packed sequences",
    "peers_attention_training.json": "attention with its gradients",
    "peers_loss.json": "a last linear layer and its loss",
    "peers_loss_training.json": "the same with their gradients",
}
PEERS = {"torch": "PyTorch", "inductor": "torch.compile", "onnxruntime": "ONNX Runtime"}

# Work on a GPU, its results, the peers of which the quickest counts.
GPU: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("matrix multiplication, bf16", "gpu_gemm.json",
     {"cublas": "cuBLAS", "torch": "torch._grouped_mm"}),
    ("4- and 8-bit weights", "gpu_gemm_weights.json", {"cublas_bf16": "cuBLAS of bf16"}),
    ("attention, prompts and decoding", "gpu_attention_h200.json",
     {"cudnn": "cuDNN", "flash": "FlashAttention", "efficient": "PyTorch"}),
    ("attention with changed scores", "gpu_flex_attention.json", {"flex": "FlexAttention"}),
    ("gradients of attention", "gpu_attention_backward.json",
     {"cudnn": "cuDNN", "flash": "FlashAttention"}),
    ("layers of experts", "gpu_fused_experts.json", {"torch": "PyTorch"}),
    ("other operators", "gpu_memory_bound*.json", GPU_PEERS),
    ("other operators, 1 to 64 rows", "gpu_few_rows.json", GPU_PEERS),
)  # fmt: skip


def _row(work: str, where: str, peers: str, ratios: list[float]) -> list[str]:
    """Fractions are of a peer's time over ours."""
    slower = sum(ratio < 0.95 for ratio in ratios)
    mean = statistics.geometric_mean(ratios)
    return [work, where, peers, str(len(ratios)), f"{mean:.2f} x", str(slower)]


def _of_gpu(results: Iterable[dict[str, Any]], peers: dict[str, str]) -> list[float]:
    ratios = []
    for row in results:
        if times := [row["seconds"][name] for name in peers if name in row["seconds"]]:
            ratios.append(min(times) / row["seconds"]["ours"])
    return ratios


def digest(folder: Path) -> str:
    """One row for each kind of work and peer."""
    rows = []
    for file, work in SUITES.items():
        data = json.loads((folder / file).read_text())
        for name, peer in PEERS.items():
            ratios = [row["peers"][name]["ratio"] for row in data["results"]
                      if name in row.get("peers", {})]  # fmt: skip
            if not ratios:
                continue
            rows.append(_row(work, f"{data['cpu']}, {data['microarchitecture']}", peer, ratios))
    for work, pattern, peers in GPU:
        for path in sorted(folder.glob(pattern)):
            data = json.loads(path.read_text())
            where = data["machine"]["gpu"].removeprefix("NVIDIA ")
            there = {name for row in data["results"] for name in row["seconds"]}
            beside = {name: peer for name, peer in peers.items() if name in there}
            ratios = _of_gpu(data["results"], beside)
            rows.append(_row(work, where, ", ".join(beside.values()), ratios))
    about = (
        "All of it beside its peers: times of the peer, of several of the quickest, over "
        "tilewright's. Each case: [on a CPU](docs/figures/cpu.md), with one thread and two; "
        "[on a GPU](docs/figures/gpu.md)."
    )
    return table(
        about, ["work", "on", "beside", "cases", "geometric mean", "over 5 % slower in"], rows
    )

#!/usr/bin/env python3
"""Writes the README's tables and docs/figures from the JSON files under benchmarks/results/.

Example:
    python3 benchmarks/report.py            # rewrites them, the README between its two markers
    python3 benchmarks/report.py --check    # fails when one of them is out of date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cpu_tables import beside_torch, divergence, language_model, linear_peers, operators, overhead
from digest import digest
from gpu_tables import (
    gpu_experts,
    gpu_few_rows,
    gpu_gemm,
    gpu_gemm_fp8,
    gpu_gemm_weights,
    gpu_limits,
    gpu_memory_bound,
    gpu_profiles,
    gpu_rates,
)
from tables import limits

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
FIGURES = ROOT / "docs" / "figures"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- benchmark_results -->\n", "<!-- /benchmark_results -->"

# Title, results, table.
Section = tuple[str, str, Callable[[dict[str, Any]], str]]

LANGUAGE_MODEL: Section = ("A language model on a CPU", "smollm2*.json", language_model)
FOLDED: tuple[Section, ...] = (
    ("How close its predictions stay", "divergence.json", divergence),
    ("Operators on a CPU", "operators.json", operators),
    ("Linear layers of 4-bit weights on a CPU", "linear_peers.json", linear_peers),
)

CPU: tuple[Section, ...] = (
    ("What a CPU can do", "limits.json", limits),
    ("Operators beside PyTorch on a CPU", "peers*.json", beside_torch),
    ("What a call costs besides its work", "overhead.json", overhead),
)
GPU: tuple[Section, ...] = (
    ("What an H100 can do", "gpu_limits.json", gpu_limits),
    ("Matrix multiplication on a GPU", "gpu_gemm.json", gpu_gemm),
    ("Multiplication of 8-bit matrices on a GPU", "gpu_gemm_fp8.json", gpu_gemm_fp8),
    ("Linear layers of narrow weights on a GPU", "gpu_gemm_weights.json", gpu_gemm_weights),
    ("A layer of experts on a GPU", "gpu_fused_experts.json", gpu_experts),
    ("Attention on a GPU", "gpu_attention.json", gpu_rates),
    ("Attention on an H200", "gpu_attention_h200.json", gpu_rates),
    (
        "Attention of 8-bit floats on a GPU",
        "gpu_attention_fp8.json",
        partial(gpu_rates, dtype="f8_e4m3fn"),
    ),
    ("Modified scores and masks on a GPU", "gpu_flex_attention.json", gpu_rates),
    ("Multi-head latent attention on a GPU", "gpu_mla.json", gpu_rates),
    ("Gradients of attention on a GPU", "gpu_attention_backward.json", gpu_rates),
    (
        "A last linear layer, its loss and their gradients on a GPU",
        "gpu_linear_cross_entropy.json",
        gpu_rates,
    ),
    ("Other operators on a GPU", "gpu_memory_bound*.json", gpu_memory_bound),
    ("Other operators on a GPU, few rows", "gpu_few_rows.json", gpu_few_rows),
    ("Profiles of kernels on a GPU", "gpu_profiles*.json", gpu_profiles),
)


def tables(section: Section) -> list[str]:
    """One for each file of results."""
    _, pattern, write = section
    return [write(json.loads(path.read_text())) for path in sorted(RESULTS.glob(pattern))]


def readme(text: str) -> str:
    """The README with the tables that a first reader wants."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    parts = [f"{LANGUAGE_MODEL[0]}: {shown}" for shown in tables(LANGUAGE_MODEL)]
    parts.append(digest(RESULTS))
    for section in FOLDED:
        folded = "\n".join(tables(section))
        parts.append(f"<details><summary>{section[0]}</summary>\n\n{folded}\n</details>\n")
    return head + BEGIN + "\n" + "\n".join(parts) + "\n" + END + tail


def page(title: str, sections: tuple[Section, ...]) -> str:
    """A page of docs/figures."""
    parts = [
        f"# {title}\n",
        "Written by `benchmarks/report.py` from `benchmarks/results`; "
        "[docs/guide/benchmarks.md](../guide/benchmarks.md) says how it is measured.\n",
    ]
    for section in sections:
        parts.append(f"## {section[0]}\n")
        parts += tables(section)
    return "\n".join(parts)


def main() -> int:
    """Rewrites the pages, or compares them with --check."""
    pages = {
        README: readme(README.read_text()),
        FIGURES / "cpu.md": page("Figures of a CPU", CPU),
        FIGURES / "gpu.md": page("Figures of a GPU", GPU),
    }
    stale = [path for path, text in pages.items()
             if not path.exists() or path.read_text() != text]  # fmt: skip
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run benchmarks/report.py",
                  file=sys.stderr)  # fmt: skip
        return int(bool(stale))
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(pages[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())

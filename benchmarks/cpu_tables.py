"""The tables of what was measured on a CPU."""

from __future__ import annotations

import statistics
from typing import Any

from tables import table


def machine(env: dict[str, Any]) -> str:
    """Processor, instruction set, version and compiler in one line."""
    cpu = env["cpu"]
    return (
        f"{cpu['brand']}, {cpu['microarchitecture']}, {env['isa']['chosen']}; "
        f"tilewright {env['version']}, {env['compiler']}"
    )


def processor(data: dict[str, Any]) -> str:
    """What run.py and overhead.py say of it; older files do not have its microarchitecture."""
    names = (data["cpu"], data.get("microarchitecture"), data["isa"])
    return ", ".join(name for name in names if name)


def threads_text(count: int) -> str:
    """So many threads, in words."""
    return f"{count} thread{'s' * (count > 1)}"


# How much faster than the best peer the project wants a model to run; of weights in q4_0, which
# suit llama.cpp best, less.
MODEL_TARGETS = {"decode": 1.6, "prefill 128": 1.3, "prefill 512": 1.3, "first token": 1.5}
MODEL_TARGETS_Q4_0 = {"decode": 1.4}


def language_model(data: dict[str, Any]) -> str:
    """One row for each workload and thread count; the best peer decides the ratio."""
    names = list(dict.fromkeys(name for row in data["rows"] for name in row["results"]))
    peers = [name for name in names if name != "tilewright"]
    versions = {
        name: about["version"]
        for row in data["rows"]
        for name, about in row.get("peers", {}).items()
    }
    targets = MODEL_TARGETS_Q4_0 if "q4_0" in data["model"] else MODEL_TARGETS
    rows = []
    for row in data["rows"]:
        target = targets.get(row["work"])
        medians = {name: r["median"] for name, r in row["results"].items()}
        seconds = row["unit"] == "s"
        others = [medians[name] for name in peers if name in medians]
        ours = medians["tilewright"]
        ratio = min(others) / ours if seconds else ours / max(others)
        cells = [figure(medians[name], row["unit"]) if name in medians else "" for name in names]
        rows.append([row["work"], str(row["threads"]), *cells, f"{ratio:.2f} x",
                     f"{target} x" if target else ""])  # fmt: skip
        if "peak_rss_bytes" in row:
            memory = [f"{row['peak_rss_bytes'][name] / 2**20:.0f} MiB" for name in names]
            rows.append(["peak memory", str(row["threads"]), *memory, "", ""])
    about = f"{data['model']} ({machine(data['env'])}). Peers: {', '.join(versions.values())}."
    heads = ["work", "threads", "tilewright", *peers, "against the best", "target"]
    return table(about, heads, rows)


def figure(value: float, unit: str) -> str:
    """Three digits."""
    return f"{value * 1e3:.0f} ms" if unit == "s" else f"{value:.0f} {unit}"


# Per cent of the limit that the project wants, by operator and kind of limit.
TARGETS = {
    ("attention", "arithmetic"): 75,
    ("attention", "DRAM read"): 80,
    ("linear_packed", "arithmetic"): 90,
    ("matmul", "arithmetic"): 80,
    ("linear_quantized", "DRAM read"): 80,
    ("copy", "DRAM copy"): 85,
    ("gelu", "DRAM copy"): 85,
    ("layer_norm", "DRAM copy"): 85,
    ("log_softmax", "DRAM copy"): 85,
    ("rms_norm", "DRAM copy"): 85,
    ("silu_and_mul", "DRAM copy"): 85,
    ("softmax", "DRAM copy"): 85,
    ("transpose", "DRAM copy"): 85,
}


def operators(data: dict[str, Any]) -> str:
    """Each workload with its fraction of the measured limit, for each thread count."""
    threads = sorted({row["threads"] for row in data["results"]})
    found: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for row in data["results"]:
        key = (row["op"], row["workload"], row["dtype"])
        found.setdefault(key, {})[row["threads"]] = row
    limits = "; ".join(
        f"{threads_text(limit['threads'])}: "
        f"{limit['f32_fma_gflops']:.0f} GFLOP/s f32, {limit['int8_dot_gops']:.0f} GOP/s int8, "
        f"{limit['dram_read_gbs']:.1f} GB/s read, {limit['dram_copy_gbs']:.1f} GB/s copy"
        for limit in data["limits"]
    )
    about = (
        f"{data['processor']}; g++ {data['compiler']}. Measured limits: {limits}. A row's "
        "percentage is of what the machine was measured to do between the row's own runs; "
        "docs/notes/cpu_limits.md says what bounds rows below their target."
    )
    heads = [threads_text(count) for count in threads]
    rows = []
    for (op, workload, dtype), by_threads in found.items():
        some = next(iter(by_threads.values()))
        if "fraction_of_limit" not in some:
            continue
        cells = [
            f"{100 * by_threads[count]['fraction_of_limit']:.0f} %" if count in by_threads else ""
            for count in threads
        ]
        target = TARGETS.get((op, some["limit"]))
        cells.append(f"{target} %" if target and not dtype.startswith("f16") else "")
        rows.append([op, workload, dtype, some["limit"], *cells])
    return table(about, ["operator", "workload", "dtype", "limit", *heads, "target"], rows)


PEER_NAMES = {"torch": "eager", "inductor": "torch.compile", "onnxruntime": "ONNX Runtime"}


def beside_torch(data: dict[str, Any]) -> str:
    """One row for each workload of benchmarks/run.py: times of ours, and of peers over ours."""
    names = list(dict.fromkeys(name for row in data["results"] for name in row.get("peers", {})))
    threads = sorted({row["threads"] for row in data["results"]})
    found: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for row in data["results"]:
        if row.get("peers"):
            key = (row["op"], row["workload"], row["dtype"])
            found.setdefault(key, {})[row["threads"]] = row
    heads, means = [], []
    for count in threads:
        of = threads_text(count)
        heads += [f"us, {of}", *(f"{PEER_NAMES[name]}, {of}" for name in names)]
        for name in names:
            ratios = [of_key[count]["peers"][name]["ratio"] for of_key in found.values()
                      if name in of_key.get(count, {}).get("peers", {})]  # fmt: skip
            if ratios:
                means.append(f"{statistics.geometric_mean(ratios):.2f} x {PEER_NAMES[name]}, {of}")
    passes = ", forward and backward" if data.get("pass") == "training" else ""
    kept = ", results in memory that earlier ones gave back" if data.get("reuse") else ""
    about = (
        f"{processor(data)}; tilewright {data['tilewright']}, PyTorch {data['torch']} "
        f"({data['torch_isa']}); suite {data['suite']}{passes}{kept}. Times of peers over "
        f"ours; geometric means: {'; '.join(means)}."
    )
    rows = []
    for key, by_threads in found.items():
        cells = list(key)
        for count in threads:
            row = by_threads.get(count, {"peers": {}})
            cells.append(f"{row['us']:.1f}" if "us" in row else "")
            cells += [f"{row['peers'][name]['ratio']:.2f} x" if name in row["peers"] else ""
                      for name in names]  # fmt: skip
        rows.append(cells)
    return table(about, ["operator", "workload", "dtype", *heads], rows)


def linear_peers(data: dict[str, Any]) -> str:
    """One row for each layer."""
    first = data["rows"][0]
    about = (
        f"{first['features']} features of {first['k']} values ({machine(data['env'])}). The peer "
        f"is ggml as llama-cpp-python {data['llama_cpp']} builds it, weights repacked."
    )
    rows = []
    for row in data["rows"]:
        ours, theirs = (row["results"][side]["median"] for side in ("tilewright", "ggml"))
        rows.append([row["format"], str(row["tokens"]), str(row["threads"]), f"{ours:.0f} us",
                     f"{theirs:.0f} us", f"{theirs / ours:.2f} x"])  # fmt: skip
    return table(about, ["format", "tokens", "threads", "tilewright", "ggml", "against it"], rows)


def divergence(data: dict[str, Any]) -> str:
    """What rounding activations to 8 bits does to predictions."""
    about = (
        f"{data['tokens']} tokens of {data['text']}, each against float32 with the file's own "
        f"weights ({machine(data['env'])}; {data['peer']}; {data['model']}). Nats a token."
    )
    rows = [
        [name, f"{of['kl_divergence']:.5f}", f"{of['kl_divergence_99_percent']:.4f}",
         f"{100 * (of['perplexity_ratio'] - 1):+.2f} %"]
        for name, of in data.items() if isinstance(of, dict) and "kl_divergence" in of
    ]  # fmt: skip
    heads = ["8-bit activations", "KL divergence", "of 1 token in 100, at least", "perplexity"]
    return table(about, heads, rows)


def overhead(data: dict[str, Any]) -> str:
    """One row for each way of calling, medians by mode."""
    modes = list(data["us"])
    limits = " and ".join(f"{us:g} us ({mode})" for mode, us in data["limits"].items())
    about = (
        f"relu of 16 numbers, us a call ({processor(data)}; tilewright "
        f"{data['tilewright']}, PyTorch {data['torch']}, Python {data['python']}). The bare call "
        f"is the C interface through ctypes; torch.ops may cost {limits} more."
    )
    rows = [
        [name, *(f"{data['us'][mode][name]['us']:.2f}" for mode in modes)]
        for name in data["us"][modes[0]]
    ]
    return table(about, ["call", *(mode.replace("_", " ") for mode in modes)], rows)

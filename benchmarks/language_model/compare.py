#!/usr/bin/env python3
"""A language model on tilewright and on its peers, in turns on the same prompts.

Decode: 128 tokens after a short prompt. Prefill: prompts of 128 and 512 tokens. Every prompt is
new, so that nobody finds it in a cache. First token: from the start of the process (tilewright) or
of loading (peers, which are spared the interpreter's own start).

Example:
    python3 benchmarks/language_model/compare.py MODEL.gguf --out benchmarks/results/smollm2.json
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from environment import environment

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORDS = [
    "time", "person", "year", "way", "day", "thing", "man", "world", "life", "hand", "part",
    "child", "eye", "woman", "place", "work", "week", "case", "point", "government", "company",
    "number", "group", "problem", "fact", "water", "room", "mother", "area", "money", "story",
    "month", "lot", "right", "study", "book",
]  # fmt: skip


QUIET_SECONDS = 0.5  # threads of the engine before may spin, on cores that the next one wants
FIRST_TOKEN = "first token"
WORK = ["decode", "prefill 128", "prefill 512", FIRST_TOKEN]


class Tilewright:
    """`tilewright generate -i --json`: a prompt a line, an answer a line."""

    def __init__(self, tool: str, model: str, threads: int, tokens: int) -> None:
        """Starts the process."""
        command = [tool, "generate", model, "-i", "--json", "--greedy", "--ignore-eos"]
        command += ["-n", str(tokens), "--threads", str(threads)]
        self.process = start(command)

    def ask(self, prompt: str) -> dict[str, float]:
        """Writes so many tokens after the prompt."""
        answer = exchange(self.process, prompt)
        decoded = len(answer["tokens"]) - 1
        return {
            "prompt_tokens": answer["prompt_tokens"] - answer["reused_tokens"],
            "prefill_seconds": answer["prefill_ms"] / 1e3,
            "decode_seconds": decoded / answer["decode_tok_s"] if decoded else 0.0,
        }


class Peer:
    """peers.py in another Python environment."""

    def __init__(self, python: str, name: str, model: str, threads: int, tokens: int) -> None:
        """Starts the process and waits until it has loaded the model."""
        self.process = start([python, str(HERE / "peers.py"), name, model, str(threads)])
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} did not start: run benchmarks/language_model/peers.py")
        self.about = json.loads(line)
        self.tokens = tokens

    def ask(self, prompt: str) -> dict[str, float]:
        """Writes so many tokens after the prompt."""
        return exchange(self.process, json.dumps({"prompt": prompt, "tokens": self.tokens}))


def start(command: list[str]) -> subprocess.Popen[str]:
    """A process that answers lines with lines."""
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def stop(process: subprocess.Popen[str]) -> None:
    """Ends a process by ending its input."""
    process.stdin.close()
    process.wait(timeout=60)


def exchange(process: subprocess.Popen[str], line: str) -> dict[str, Any]:
    """One request and its answer."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def make_prompt(tool: str, model: str, tokens: int, rng: random.Random) -> str:
    """New text of about so many tokens; each side counts its own."""
    words = [rng.choice(WORDS) for _ in range(tokens)]
    counted = subprocess.run(
        [tool, "tokenize", model, "--json", "-p", " ".join(words)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    excess = len(json.loads(counted.stdout)["tokens"]) - tokens
    return " ".join(words[: tokens - max(excess, 0)])


def summary(values: list[float]) -> dict[str, float]:
    """Median and spread."""
    tenths = quantiles(values, n=10) if len(values) > 1 else [values[0]] * 9
    return {"median": median(values), "p10": tenths[0], "p90": tenths[-1], "runs": len(values)}


def measure(options: argparse.Namespace, threads: int, work: dict[str, Any]) -> dict[str, Any]:
    """All engines in turns on one workload; tokens per second each."""
    rng = random.Random(f"{threads} {work['name']}")
    sides: dict[str, Tilewright | Peer] = {
        "tilewright": Tilewright(options.tool, options.model, threads, work["tokens"])
    }
    about = {}
    for name in options.peers:
        peer = Peer(options.python, name, options.model, threads, work["tokens"])
        sides[name] = peer
        about[name] = peer.about
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(options.turns + 1):
        prompt = make_prompt(options.tool, options.model, work["prompt"], rng)
        order = list(sides)
        rng.shuffle(order)
        for name in order:
            time.sleep(QUIET_SECONDS)
            answer = sides[name].ask(prompt)
            if turn == 0:
                continue  # first use: pages, code and threads are still cold
            if work["kind"] == "decode":
                rates[name].append((work["tokens"] - 1) / answer["decode_seconds"])
            else:
                rates[name].append(answer["prompt_tokens"] / answer["prefill_seconds"])
    for side in sides.values():
        stop(side.process)
    row = {"work": work["name"], "threads": threads, "unit": "tok/s"}
    row["results"] = {name: summary(values) for name, values in rates.items()}
    row["peers"] = about
    return row


def first_token(options: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Whole processes of tilewright; what the peers say of their own start.

    In turns with one peer at a time: who starts after a process that just freed gigabytes pays for
    it. tilewright's figure is the one beside the fastest.
    """
    rng = random.Random(threads)
    starts = {name: functools.partial(start_peer, options, name, threads) for name in options.peers}
    starts["tilewright"] = functools.partial(start_tilewright, options, threads)
    beside: dict[str, list[float]] = {}
    results: dict[str, list[float]] = {"tilewright": []}
    memory: dict[str, list[float]] = {"tilewright": []}
    for peer in options.peers:
        seconds: dict[str, list[float]] = {"tilewright": [], peer: []}
        memory[peer] = []
        for turn in range(options.turns + 1):
            for side in rng.sample(["tilewright", peer], 2):
                took, added = starts[side]()
                if turn > 0:
                    seconds[side].append(took)
                    memory[side].append(added)
        results[peer], beside[peer] = seconds[peer], seconds["tilewright"]
    fastest = min(options.peers, key=lambda name: median(results[name]))
    results["tilewright"] = beside[fastest]
    return {
        "work": FIRST_TOKEN,
        "threads": threads,
        "unit": "s",
        "results": {name: summary(values) for name, values in results.items()},
        "peak_rss_bytes": {name: median(values) for name, values in memory.items()},
    }


def start_tilewright(options: argparse.Namespace, threads: int) -> tuple[float, float]:
    """Seconds of a process that writes one token, and the memory that it takes."""
    command = [options.tool, "generate", options.model, "--json", "--greedy", "-n", "1"]
    command += ["-p", "Once upon a time", "--threads", str(threads)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.perf_counter() - begin, json.loads(done.stdout)["peak_rss_bytes"]


def start_peer(options: argparse.Namespace, name: str, threads: int) -> tuple[float, float]:
    """The same, as the peer tells it."""
    peer = Peer(options.python, name, options.model, threads, 1)
    stop(peer.process)
    return peer.about["first_token_seconds"], peer.about["added_rss_bytes"]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--tool", default=str(ROOT / "build/release/tilewright"))
    parser.add_argument(
        "--python", default=str(ROOT / ".venv-peers/bin/python"), help="has the peers' packages"
    )
    parser.add_argument("--peers", nargs="*", default=["llama.cpp", "OpenVINO GenAI"])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--work", nargs="+", default=WORK, help="a few of the rows")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--out", type=Path, help="JSON; default: stdout")
    return parser.parse_args()


def main() -> int:
    """Measures and writes JSON; progress on stderr."""
    options = parse()
    rows = []
    for threads in options.threads:
        for name in options.work:
            if name == FIRST_TOKEN:
                rows.append(first_token(options, threads))
                print_row(rows[-1])
                continue
            kind, *size = name.split()
            decode = kind == "decode"
            work = {
                "name": name,
                "kind": kind,
                "prompt": 8 if decode else int(size[0]),
                "tokens": 128 if decode else 1,
            }
            rows.append(measure(options, threads, work))
            print_row(rows[-1])
    text = json.dumps(
        {"model": Path(options.model).name, "env": environment(options.tool), "rows": rows},
        indent=1,
    )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n")
    else:
        print(text)
    return 0


def print_row(row: dict[str, Any]) -> None:
    """Progress, for people."""
    figures = "  ".join(f"{name} {r['median']:.4g}" for name, r in row["results"].items())
    print(f"{row['work']:12} {row['threads']} threads: {figures} {row['unit']}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

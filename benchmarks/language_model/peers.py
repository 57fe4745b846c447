#!/usr/bin/env python3
"""One peer as a process: reads a request a line, writes an answer a line, both JSON.

Request: {"prompt": TEXT, "tokens": N}. Answer: prompt_tokens, prefill_seconds, decode_seconds (of
the N - 1 tokens after the first). The first line written describes the peer: version, the seconds
from the start of loading to the first token, and the memory that took beyond the interpreter's.

Example:
    echo '{"prompt": "Once upon a time", "tokens": 8}' | python3 peers.py llama.cpp MODEL.gguf 2
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

CONTEXT = 2048
Generate = Callable[[str, int], dict[str, float]]


def llama_cpp(model: str, threads: int) -> Generate:
    """llama.cpp as llama-cpp-python builds it for this very processor."""
    import llama_cpp as lib

    llm = lib.Llama(
        model, n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, n_batch=512, verbose=False
    )

    def generate(prompt: str, tokens: int) -> dict[str, float]:
        ids = llm.tokenize(prompt.encode(), add_bos=False)
        llm.reset()
        lib.llama_perf_context_reset(llm.ctx)
        llm.eval(ids)
        for _ in range(tokens - 1):
            llm.eval([llm.sample(temp=0)])
        lib.llama_synchronize(llm.ctx)  # else the last evaluation is not yet counted
        timing = lib.llama_perf_context(llm.ctx)
        return {
            "prompt_tokens": len(ids),
            "prefill_seconds": timing.t_p_eval_ms / 1e3,
            "decode_seconds": timing.t_eval_ms / 1e3,
        }

    return generate


def xllamacpp(model: str, threads: int) -> Generate:
    """llama.cpp as a binary package (AVX2), where the other cannot be built."""
    import xllamacpp as lib

    params = lib.CommonParams()
    params.model.path = model
    params.n_ctx = CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = False
    params.verbosity = -1
    server = lib.Server(params)

    def generate(prompt: str, tokens: int) -> dict[str, float]:
        answer = server.handle_completions(
            {
                "prompt": prompt,
                "n_predict": tokens,
                "temperature": 0,
                "cache_prompt": False,
                "ignore_eos": True,
            }
        )
        timing = (json.loads(answer) if isinstance(answer, str) else answer)["timings"]
        per_token = timing["predicted_ms"] / timing["predicted_n"] / 1e3
        return {
            "prompt_tokens": timing["prompt_n"],
            "prefill_seconds": timing["prompt_ms"] / 1e3,
            "decode_seconds": per_token * (tokens - 1),
        }

    return generate


def openvino(model: str, threads: int) -> Generate:
    """openvino-genai, which reads GGUF files itself."""
    import openvino_genai as lib

    pipeline = lib.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)

    def generate(prompt: str, tokens: int) -> dict[str, float]:
        config = lib.GenerationConfig()
        config.max_new_tokens = tokens
        config.do_sample = False
        config.ignore_eos = True
        config.apply_chat_template = False
        metrics = pipeline.generate([prompt], config).perf_metrics
        decode = metrics.get_tpot().mean / 1e3 * (tokens - 1) if tokens > 1 else 0.0
        return {
            "prompt_tokens": metrics.get_num_input_tokens(),
            "prefill_seconds": metrics.get_ttft().mean / 1e3,
            "decode_seconds": decode,
        }

    return generate


PEERS: dict[str, tuple[str, str, Callable[[str, int], Generate]]] = {
    # name: (package, module, start)
    "llama.cpp": ("llama-cpp-python", "llama_cpp", llama_cpp),
    "llama.cpp (prebuilt)": ("xllamacpp", "xllamacpp", xllamacpp),
    "OpenVINO GenAI": ("openvino-genai", "openvino_genai", openvino),
}


def peak_rss() -> int:
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> int:
    """Serves one peer until the input ends."""
    if len(sys.argv) != 4 or sys.argv[1] not in PEERS:
        print(f"{__doc__}\nPeers: {', '.join(PEERS)}", file=sys.stderr)
        return 2
    name, model, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    package, module, start = PEERS[name]
    # What a peer prints itself must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    __import__(module)
    before = peak_rss()
    begin = time.perf_counter()
    generate = start(model, threads)
    generate("Once upon a time", 1)
    reply(
        {
            "name": name,
            "version": f"{package} {importlib.metadata.version(package)}",
            "first_token_seconds": time.perf_counter() - begin,
            "added_rss_bytes": peak_rss() - before,
        }
    )
    for line in sys.stdin:
        request = json.loads(line)
        reply(generate(request["prompt"], request["tokens"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The published SmolLM2-135M-Instruct against transformers, token for token."""

from __future__ import annotations

import itertools
import math
import os
import pty
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from command_line import TOOL, run_json, run_tool, tool_logits

NEW_TOKENS = 128
TIE = 1e-4  # logits closer than this: either token is right

PROMPTS = {
    "one token": "The",
    "capital": "The capital of France is",
    "code": "def fibonacci(n):\n    ",
    "digits": "3.14159265358979 and 2.71828182845904 are",
    "question": "Why is the sky blue?",
    "list": "Ingredients:\n- flour\n- eggs\n-",
    "story": "Once upon a time, in a village by the sea, there lived",
    "unicode": "Überraschung: 東京 и Москва 🙂 are",
    "whitespace": "a  b\t\tc\n\n\nd",
    "json": '{"name": "Ada", "born": 1815, "known_for": [',
    "math": "To solve 2x + 3 = 11, first",
    "dialogue": '"I cannot believe it," she said. "You',
    "latin": "Lorem ipsum dolor sit amet,",
    "upper": "BREAKING NEWS: SCIENTISTS HAVE",
    "poem": "Two roads diverged in a yellow wood,\nAnd sorry I could not travel both\n",
    "chat": "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
}
LENGTHS = [60, 200, 500, 1000, 1500]  # tokens, cut from English text


def tokenize(model: Path, text: str) -> list[int]:
    return run_json("tokenize", model, "-p", text, "--parse-special")["tokens"]


@pytest.fixture(scope="module")
def prompts(smollm: Path, english: str) -> dict[str, list[int]]:
    all_tokens = tokenize(smollm, english[:40000])
    out = {name: tokenize(smollm, text) for name, text in PROMPTS.items()}
    for length in LENGTHS:
        out[f"{length} tokens"] = all_tokens[length : 2 * length]
    return out


@pytest.mark.parametrize("name", [*PROMPTS, *(f"{n} tokens" for n in LENGTHS)])
def test_exact_mode_is_transformers(name, prompts, smollm, smollm_reference, tmp_path):
    """Logits within 1e-3 of the largest, and every greedy token the same."""
    import torch

    prompt = prompts[name]
    listed = ",".join(map(str, prompt))
    flags = ["-n", NEW_TOKENS, "--exact", "--greedy", "--ignore-eos"]
    text = prompt + run_json("generate", smollm, "--tokens", listed, *flags)["tokens"]
    assert len(text) == len(prompt) + NEW_TOKENS
    with torch.no_grad():
        want = smollm_reference(torch.tensor([text])).logits[0].numpy()
    got = tool_logits(smollm, text, tmp_path / "logits.npy", "--exact")
    assert largest_difference(got, want) <= 1e-3 * max(want.max(), -want.min())

    # Given the same text so far, our token is transformers' first choice.
    for i in range(len(prompt) - 1, len(text) - 1):
        choice = int(want[i].argmax())
        if choice == text[i + 1]:
            continue
        gap = want[i, choice] - want[i, text[i + 1]]
        assert gap < TIE, f"token {i + 1 - len(prompt)}: {text[i + 1]} != {choice}"
        warnings.warn(f"{name}: tokens {choice} and {text[i + 1]} tie ({gap:.1e})", stacklevel=1)


def largest_difference(got: np.ndarray, want: np.ndarray) -> float:
    """By parts, in cache: these are up to 1,628 x 49,152 logits."""
    return max(np.abs(a - b).max() for a, b in zip(got, want, strict=True))


TEXT = Path(__file__).with_name("english.txt")
# Of llama.cpp with its int8 activations, on this model and text, by
# benchmarks/language_model/divergence.py (benchmarks/results/divergence.json).
LLAMA_CPP_DIVERGENCE = 3.46e-3


@pytest.fixture(scope="module")
def both_modes(smollm, tmp_path_factory) -> tuple[np.ndarray, np.ndarray]:
    """Of 4,200 tokens of text, in windows: how far the default mode's distribution of the next
    token diverges from the exact one's, and how much less likely it finds the one that follows."""
    folder = tmp_path_factory.mktemp("logits")
    tokens = tokenize(smollm, TEXT.read_text(encoding="utf-8"))[:4200]
    assert len(tokens) == 4200
    divergences, losses = [], []
    for start in range(0, len(tokens), 525):
        part = tokens[start : start + 525]
        exact = tool_logits(smollm, part, folder / "e.npy", "--exact")
        rounded = tool_logits(smollm, part, folder / "q.npy")
        for e, r, following in itertools.zip_longest(exact, rounded, part[1:]):
            e, r = log_softmax(e), log_softmax(r)  # one position at a time: in cache
            divergences.append((np.exp(e) * (e - r)).sum())
            if following is not None:
                losses.append(e[following] - r[following])
    return np.array(divergences), np.array(losses)


def test_default_mode_stays_close(both_modes):
    """Default mode against exact: as close as llama.cpp is."""
    divergence, _ = both_modes
    assert divergence.mean() <= LLAMA_CPP_DIVERGENCE


def test_default_mode_keeps_the_perplexity(both_modes):
    """Within half a percent of exact."""
    _, loss = both_modes
    assert abs(math.exp(loss.mean()) - 1) < 0.005


@pytest.mark.parametrize("flags", [[], ["--exact"]])
def test_perplexity_is_that_of_the_logits(smollm, english, tmp_path, flags):
    text = tmp_path / "text"
    text.write_text(english[:1500])
    tokens = tokenize(smollm, english[:1500])
    losses = []
    for start in range(0, len(tokens), 200):
        part = tokens[start : start + 200]
        logits = tool_logits(smollm, part, tmp_path / "logits.npy", *flags)
        for x, following in zip(logits[:-1], part[1:], strict=True):
            losses.append(-log_softmax(x)[following])
    told = run_json("perplexity", smollm, text, "--context", 200, *flags)
    assert told["tokens"] == len(losses)
    want = math.exp(np.mean(losses, dtype=np.float64))
    assert told["perplexity"] == pytest.approx(want, rel=1e-5)


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(axis=-1, keepdims=True)  # float32 errs by 1e-7 of a nat, far below what is asked
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("flags", [[], ["--exact"]])
def test_bits_do_not_depend_on_threads_or_chunks(smollm, prompts, tmp_path, flags):
    tokens = prompts["200 tokens"]
    base = tool_logits(smollm, tokens, tmp_path / "base.npy", *flags, "--threads", 2)
    others = (["--threads", 1], ["--threads", 5], ["--chunk", 1], ["--chunk", 7], ["--chunk", 64])
    for other in others:
        got = tool_logits(smollm, tokens, tmp_path / "other.npy", *flags, *other)
        assert np.array_equal(base, got), other


def test_bits_of_a_long_text_depend_on_no_threads_or_chunks(smollm, prompts):
    """Beyond a block of keys and a chunk of the prompt."""
    listed = ",".join(map(str, prompts["1000 tokens"]))
    told = [
        run_json("generate", smollm, "--tokens", listed, "-n", 8, *flags)["tokens"]
        for flags in ([], ["--threads", 1], ["--threads", 3, "--prefill-chunk", 97])
    ]
    assert told[0] == told[1] == told[2]


def test_the_same_seed_writes_the_same_text(smollm):
    flags = ["-p", "Once", "-n", 24, "--temperature", 1.2, "--top-p", 0.9]
    first = run_json("generate", smollm, *flags, "--seed", 5)["tokens"]
    assert run_json("generate", smollm, *flags, "--seed", 5)["tokens"] == first
    assert run_json("generate", smollm, *flags, "--seed", 6)["tokens"] != first


def test_an_option_for_drawing_draws(smollm):
    prompt = ["-p", "Once", "-n", 24]
    greedy = run_json("generate", smollm, *prompt)["tokens"]
    assert run_json("generate", smollm, *prompt, "--seed", 5, "--greedy")["tokens"] == greedy
    for flags in (["--seed", 5], ["--top-p", 0.9, "--seed", 5], ["--top-k", 40]):
        drawn = run_json("generate", smollm, *prompt, *flags)["tokens"]
        assert drawn != greedy
        assert drawn == run_json("generate", smollm, *prompt, *flags, "--temperature", 1)["tokens"]


def test_a_conversation_at_a_terminal_goes_on_after_an_error(smollm):
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(
        [TOOL, "generate", str(smollm), "-i", "--chat", "-n", "4"],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(terminal)
        os.write(keyboard, b"\xff\nWhat is 2 + 2?\n\x04")
        out, err = process.communicate(timeout=100)
    os.close(keyboard)
    assert process.returncode == 0, err
    assert b"not valid UTF-8" in err
    assert err.endswith(b"> \n")  # the shell's prompt has a line of its own
    assert out.strip()


def test_text_goes_to_stdout_and_speed_to_stderr(smollm):
    result = run_tool("generate", smollm, "-p", "The capital of France is", "-n", 4, "--greedy")
    assert result.returncode == 0
    assert result.stdout.startswith(" Paris.")
    assert "| prompt 5 tokens, " in result.stderr
    assert "tok/s" in result.stderr
    one = run_tool("generate", smollm, "-p", "The", "-n", 1, "--threads", 1)
    assert "| prompt 1 token, " in one.stderr
    assert one.stderr.endswith(", 1 thread]\n")


def test_json_says_what_was_measured(smollm):
    told = run_json("generate", smollm, "-p", "The capital of France is", "-n", 4, "--threads", 1)
    kinds = {
        "text": str, "tokens": list, "prompt_tokens": int, "reused_tokens": int, "stopped": bool,
        "load_ms": float, "prefill_ms": float, "prefill_tok_s": float, "decode_tok_s": float,
        "peak_rss_bytes": int, "isa": str, "threads": int,
    }  # fmt: skip
    assert {key: type(value) for key, value in told.items()} == kinds
    assert told["text"].startswith(" Paris.")
    assert len(told["tokens"]) == 4
    assert (told["prompt_tokens"], told["reused_tokens"], told["threads"]) == (5, 0, 1)
    for key in ("load_ms", "prefill_ms", "prefill_tok_s", "decode_tok_s"):
        assert told[key] > 0
    assert smollm.stat().st_size / 2 < told["peak_rss_bytes"] < 2**32


def test_a_system_message_is_followed(smollm):
    ask = ["generate", smollm, "--chat", "-p", "Who are you?", "-n", 24]
    plain = run_json(*ask)
    told = run_json(*ask, "--system", "You are a pirate. You always say Arrr.")
    assert told["prompt_tokens"] != plain["prompt_tokens"]
    assert told["text"] != plain["text"]


def test_penalties_forbid_what_was_said(smollm):
    """So large that no token may come twice."""
    ask = ["generate", smollm, "-p", "one two one two one two", "-n", 40, "--ignore-eos"]
    assert len(set(run_json(*ask)["tokens"])) < 20
    for flags in (["--frequency-penalty", 1e4], ["--presence-penalty", 1e4]):
        tokens = run_json(*ask, *flags)["tokens"]
        assert len(set(tokens)) == len(tokens) == 40
        assert run_json(*ask, *flags, "--penalty-tokens", 0)["tokens"] != tokens


def test_min_p_leaves_the_likeliest(smollm):
    ask = ["generate", smollm, "-p", "Once", "-n", 24]
    greedy = run_json(*ask)["tokens"]
    assert run_json(*ask, "--seed", 5, "--temperature", 2)["tokens"] != greedy
    assert run_json(*ask, "--seed", 5, "--temperature", 2, "--min-p", 1)["tokens"] == greedy


def test_memory_that_ends_has_its_exit_code(smollm):
    limited = 'ulimit -v 160000 && exec "$0" "$@"'
    command = ["sh", "-c", limited, TOOL, "generate", str(smollm), "-p", "a", "--threads", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 5
    assert result.stderr.startswith("tilewright generate: cannot allocate ")
    assert result.stderr.count("\n") == 1


def test_chat_answers(smollm):
    answer = run_json("generate", smollm, "--chat", "-p", "What is 2 + 2?", "-n", 40, "--greedy")
    assert "4" in answer["text"]
    assert "<|im" not in answer["text"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-n", 4],  # no prompt
        ["-p", "x", "-f", "y"],  # two prompts
        ["-p", "x", "--temperature", -1],
        ["-p", "x", "--top-p", "nan"],
        ["-p", "x", "--threads", 0],
        ["-p", ""],
        ["-p", "word " * 9000],  # beyond the context
    ],
)
def test_wrong_arguments_are_refused(smollm, arguments):
    result = run_tool("generate", smollm, *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("tilewright generate") or "--" in result.stderr

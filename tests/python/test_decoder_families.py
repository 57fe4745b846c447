"""Tiny random models of every family against transformers, in exact mode."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
import torch
from command_line import TOOL, run_tool, tool_logits
from tiny_models import CASES, VOCABULARY, Case, build

LENGTHS = [1, 2, 17, 300]  # the last is beyond every sliding window, or nearly


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_logits_are_transformers(case, tmp_path):
    """Within 1e-3 of the largest logit: whole prompts, chunks, and token after token."""
    tiny = build(case, tmp_path)
    tokens = np.random.default_rng(7).integers(0, VOCABULARY, LENGTHS[-1]).tolist()
    with torch.no_grad():  # in float64: one row magnifies rounding, the reference's as well as ours
        want = tiny.reference.double()(torch.tensor([tokens])).logits[0].numpy()
    for length in LENGTHS:  # no token sees later ones: a prefix has the prefix's logits
        got = tool_logits(tiny.path, tokens[:length], tmp_path / "logits.npy", "--exact")
        bound = 1e-3 * np.abs(want[:length]).max()
        assert np.abs(got - want[:length]).max() <= bound, f"{length} tokens"
    for chunk in (1, 64):
        parts = tool_logits(tiny.path, tokens, tmp_path / "l.npy", "--exact", "--chunk", chunk)
        assert np.array_equal(parts, got), f"chunks of {chunk}"


BAD_FILE, UNSUPPORTED = 3, 4  # exit codes


@pytest.mark.parametrize(
    ("extra", "code", "complaint"),
    [
        ({"blk.1.attn_sinks.weight": np.ones(4, np.float32)}, UNSUPPORTED, "attn_sinks.weight'"),
        ({"blk.0.attn_q.bias": np.ones(63, np.float32)}, BAD_FILE, "'blk.0.attn_q.bias'"),
        ({"llama.expert_count": 8}, UNSUPPORTED, "experts"),
        ({"llama.rope.scaling.type": "longrope"}, UNSUPPORTED, "'longrope'"),
        ({"llama.logit_scale": 0.5}, UNSUPPORTED, "'llama.logit_scale'"),
        ({"llama.attention.causal": False, "llama.pooling_type": 1}, 0, ""),
        ({"llama.attention.clamp_kqv": 8.0}, UNSUPPORTED, "'llama.attention.clamp_kqv'"),
        ({"llama.rope.scaling.attn_factor": 1.2}, UNSUPPORTED, "rope.scaling.attn_factor'"),
        ({"llama.rope.dimension_sections": [0, 2, 2, 0]}, UNSUPPORTED, "dimension_sections'"),
        ({"llama.rope.dimension_sections": [0, 0, 0, 0]}, 0, ""),
        ({"llama.made_up": "x"}, UNSUPPORTED, "'llama.made_up'"),
        ({"llama.made_up": [[1], [2]]}, UNSUPPORTED, "'llama.made_up'"),
        ({"llama.made_up": 0, "llama.residual_scale": 1.0, "qwen2.made_up": 5}, 0, ""),
        (
            {
                "llama.rope.scaling.type": "yarn",
                "llama.rope.scaling.factor": 2.0,
                "llama.rope.scaling.yarn_log_multiplier": 0.1,
            },
            UNSUPPORTED,
            "yarn_log_multiplier'",
        ),
        ({"llama.rope.scaling.type": "linear"}, BAD_FILE, "rope.scal"),
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": -2.0},
            BAD_FILE,
            "rope.scaling.factor",
        ),
        ({"tokenizer.ggml.remove_extra_whitespaces": True}, UNSUPPORTED, "extra_whitespaces'"),
        ({"tokenizer.ggml.suppress_tokens": [3]}, UNSUPPORTED, "suppress_tokens'"),
        ({"tokenizer.ggml.normalizer.lowercase": True}, UNSUPPORTED, "lowercase'"),
        ({"llama.attention.sliding_window": -1}, BAD_FILE, "attention.sliding_window"),
        (
            {
                "llama.attention.sliding_window": 8,
                "llama.attention.sliding_window_pattern": [True, False],
            },
            BAD_FILE,
            "attention.sliding_window_pattern",
        ),
    ],
)
def test_what_the_model_cannot_do_is_refused(tmp_path, extra, code, complaint):
    path = build(Case("refused", "llama", extra=extra), tmp_path).path
    result = run_tool("logits", path, "--tokens", "1", "--out", tmp_path / "l.npy")
    assert result.returncode == code, result
    assert complaint in result.stderr
    assert code == 0 or result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("asked", "same_as"),
    [
        ({"llama.rope.scaling.factor": 4.0}, {"type": "linear", "factor": 4.0}),
        ({"llama.rope.scale_linear": 4.0}, {"type": "linear", "factor": 4.0}),
        ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, {}),
        ({"llama.rope.scaling.factor": 0.0}, {}),
    ],
)
def test_ways_to_ask_for_linear_scaling(tmp_path, asked, same_as):
    named = {f"llama.rope.scaling.{key}": value for key, value in same_as.items()}
    got, want = (
        tool_logits(build(Case("scaled", "llama", extra=extra), tmp_path).path, [5, 6, 7, 8],
                    tmp_path / "l.npy", "--exact")
        for extra in (asked, named)
    )  # fmt: skip
    assert np.array_equal(got, want)


def test_output_that_cannot_be_written_and_input_that_cannot_be_read(tmp_path):
    """A full disk and a directory: one line and the exit code of input and output."""
    path = build(Case("io", "llama"), tmp_path).path
    with open("/dev/full", "w") as full:
        command = [TOOL, "generate", path, "--tokens", "3", "-n", "2"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (result.returncode, b"cannot write the output" in result.stderr) == (6, True)
    result = run_tool("generate", path, "-f", tmp_path, "-n", 1)
    assert (result.returncode, result.stderr.count("\n")) == (6, 1)

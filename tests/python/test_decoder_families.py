"""Tiny random models of every family against transformers, in exact mode."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest
import torch
from command_line import TOOL, run_json, run_tool, tool_logits
from tiny_models import CASES, SIZES, VOCABULARY, Case, build, tokenizer_metadata

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
        ({"llama.rope.scaling.type": "\x1b[31m\n"}, UNSUPPORTED, r"'\x1b[31m\n'"),
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
    assert result.returncode == 6
    assert result.stderr == b"tilewright generate: cannot write the output\n"
    result = run_tool("generate", path, "-f", tmp_path, "-n", 1)
    assert (result.returncode, result.stderr.count("\n")) == (6, 1)
    for command in (["-f", "-"], ["-i"]):
        folder = os.open(tmp_path, os.O_RDONLY)
        result = run_tool("generate", path, *command, stdin=folder)
        os.close(folder)
        assert result.returncode == 6
        assert "cannot read" in result.stderr


def test_files_of_other_versions(tmp_path):
    """Version 2 is laid out as version 3 and reads as the same model; others are refused."""
    path = build(Case("version", "llama", {}, "q8_0"), tmp_path).path
    content, text = path.read_bytes(), tmp_path / "text"
    text.write_text("abc def")
    commands = [
        ["inspect", "--json"],
        ["tokenize", "-p", "abc"],
        ["generate", "--tokens", "5,6,7", "-n", 9, "--greedy"],
        ["logits", "--tokens", "5,6,7", "--out", tmp_path / "l.npy"],
        ["perplexity", text],
    ]

    def results(version):
        path.write_bytes(content[:4] + version.to_bytes(4, "little") + content[8:])
        return [run_tool(name, path, *arguments) for name, *arguments in commands]

    def outputs(version):
        done = results(version)
        assert [result.returncode for result in done] == [0] * len(commands)
        texts = [result.stdout.replace(f'"version": {version}', "") for result in done]
        return texts, (tmp_path / "l.npy").read_bytes()

    assert outputs(2) == outputs(3)
    for version in (0, 1, 4):
        for result in results(version):
            assert (result.returncode, result.stdout) == (4, "")
            assert result.stderr.count("\n") == 1
            assert f"version {version} is not supported, only 2 and 3" in result.stderr


@pytest.mark.parametrize(
    "command", [("logits", "--tokens", "1"), ("inspect", "--tensor", "output_norm.weight")]
)
def test_output_does_not_replace_the_model(tmp_path, command):
    path = build(Case("io", "llama"), tmp_path).path
    content = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    for out in (path, tmp_path / "link"):
        result = run_tool(command[0], path, *command[1:], "--out", out)
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert "is the file that is read" in result.stderr
        assert path.read_bytes() == content


def test_outputs_that_are_not_numbers_are_no_text(tmp_path):
    """Of weights that are not, for one: every token would be the first of the vocabulary."""
    norm = np.full(SIZES["hidden_size"], np.nan, np.float32)
    path = build(Case("nan", "llama", extra={"output_norm.weight": norm}), tmp_path).path
    (tmp_path / "text").write_text("abc")
    for command in (
        ["generate", path, "-p", "abc"],
        ["generate", path, "-p", "abc", "--temperature", 1],
        ["perplexity", path, tmp_path / "text"],
        ["logits", path, "--tokens", 5, "--out", tmp_path / "l.npy"],
    ):
        result = run_tool(*command)
        assert (result.returncode, result.stderr.count("\n")) == (3, 1)
        assert f"{path}: tensor 'output_norm.weight': element 0 is nan" in result.stderr
        assert ": the model's outputs are not numbers (header at byte " in result.stderr
    assert not (tmp_path / "l.npy").exists()


def test_answers_of_a_conversation_end_in_new_lines(tmp_path):
    """And a line without text is no prompt."""
    path = build(Case("io", "llama"), tmp_path).path
    alone = [run_tool("generate", path, "-p", text, "-n", 5).stdout for text in ("a", "b")]
    talk = run_tool("generate", path, "-i", "-n", 5, input="a\n\nb\n")
    assert (talk.returncode, talk.stdout) == (0, "".join(alone))


def test_tokens_without_a_text_are_not_drawn(tmp_path):
    """Vocabularies are padded; the model may like the padding best."""
    path = build(Case("padded", "llama"), tmp_path).path
    for flags in (["--greedy"], ["--temperature", 1000, "--repetition-penalty", 1.5]):
        for token in (5, VOCABULARY - 1):
            got = run_json("generate", path, "--tokens", token, "-n", 60, "--ignore-eos", *flags)
            assert len(got["tokens"]) == 60
            assert max(got["tokens"]) < len(tokenizer_metadata()["tokenizer.ggml.tokens"])


def test_perplexity_of_windows_longer_than_a_pass(tmp_path):
    path = build(Case("long", "llama", {"max_position_embeddings": 2048}), tmp_path).path
    text = tmp_path / "text"
    text.write_text("".join(np.random.default_rng(3).choice([*"cdefgh \n"], 1500)))
    tokens = run_json("tokenize", path, "-f", text)["tokens"]
    losses = []
    for part in (tokens[:1400], tokens[1400:]):
        logits = tool_logits(path, part, tmp_path / "l.npy", "--exact").astype(np.float64)
        logits -= logits.max(axis=-1, keepdims=True)
        normal = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        losses.append(-normal[np.arange(len(part) - 1), part[1:]])
    told = run_json("perplexity", path, text, "--context", 1400, "--exact")
    assert told["tokens"] == len(tokens) - 2
    assert told["nats_per_token"] == pytest.approx(np.concatenate(losses).mean(), rel=1e-5)
    text.write_text("c")
    result = run_tool("perplexity", path, text)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)

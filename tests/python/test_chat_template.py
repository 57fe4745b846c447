"""`tilewright template` against Jinja as transformers sets it up: the same text, or both fail."""

from __future__ import annotations

import functools
import json
import os
import pickle
import random
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from chat_template_cases import (
    CONVERSATIONS,
    SNIPPET_VARIABLES,
    VARIABLES,
    expressions,
    random_expressions,
    random_formats,
    random_layouts,
)
from gguf import GGUFReader
from transformers.utils.chat_template_utils import _cached_compile_jinja_template

ROOT = Path(__file__).resolve().parents[2]
TOOL = os.environ.get("TILEWRIGHT_BIN", str(ROOT / "build" / "release" / "tilewright"))
TEMPLATES = sorted((ROOT / "tests" / "fuzz" / "corpus" / "chat_template").glob("*.jinja"))
STATEMENTS = Path(__file__).with_name("chat_template_statements.txt")
MODEL = ROOT / ".venv" / "models" / "smollm2-135m-instruct.gguf"

# What Python prints for objects without a text of their own, addresses and such.
OBJECT_TEXT = (
    " at 0x",
    "<built-in",
    "<Namespace",
    "<Macro",
    "<LoopContext",
    "<method",
    "<function",
)
# What the header of the interpreter excludes, by the words of its messages.
EXCLUDED = (
    "64 bits",
    "rounding floats to tens",
    "of non-ASCII text",
    "has no text",
    "'dict_keys'",
    "'dict_items'",
    "is not supported",
)


def run(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOL, "template", "render", *map(str, arguments)],
        input=text,
        capture_output=True,
        check=False,
        encoding="utf-8",
    )


def render_all(jobs: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Renders every (template, variables) with the tool."""
    lines = [json.dumps({"template": t, "variables": v}) for t, v in jobs]
    result = run("-", "--batch", text="\n".join(lines))
    assert result.returncode == 0, result.stderr
    answers = [json.loads(line) for line in result.stdout.split("\n")[:-1]]
    assert len(answers) == len(jobs)
    return answers


def render_with_jinja(compiled: Any, variables: dict[str, Any]) -> str | Exception:
    """The text, or what was raised: by Jinja, or by Python when the text is not Unicode."""
    try:
        text = compiled.render(**pickle.loads(pickle.dumps(variables)))  # may change them
        text.encode()
    except Exception as error:
        return error
    return text


@functools.cache  # transformers makes another one for each template
def jinja_environment() -> Any:
    environment = _cached_compile_jinja_template("").environment
    environment.optimized = False  # constant folding hides errors: those of slicing a number
    return environment


def compile_with_jinja(template: str) -> Any:
    try:
        return jinja_environment().from_string(template)
    except Exception as error:
        return error


def difference(answer: dict[str, Any], expected: str | Exception) -> str | None:
    """What is wrong with an answer of the tool; None when it is right."""
    if isinstance(expected, Exception):
        return f"{answer['text']!r}, Jinja fails: {expected!r}" if "text" in answer else None
    if "text" in answer:
        return None if answer["text"] == expected else f"{answer['text']!r}, Jinja {expected!r}"
    if any(words in expected for words in OBJECT_TEXT):
        return None
    if any(words in answer["error"] for words in EXCLUDED):
        return None
    return f"error {answer['error']!r}, Jinja {expected!r}"


def compare(jobs: list[tuple[str, dict[str, Any]]], least_equal: float = 0.0) -> None:
    """At least this share of the jobs must give text, so that errors do not hide everything."""
    compiled: dict[str, Any] = {}
    mistakes = []
    texts = 0
    for (template, variables), answer in zip(jobs, render_all(jobs), strict=True):
        if template not in compiled:
            compiled[template] = compile_with_jinja(template)
        expected = compiled[template]
        if not isinstance(expected, Exception):
            expected = render_with_jinja(expected, variables)
        texts += "text" in answer
        wrong = difference(answer, expected)
        if wrong is not None:
            mistakes.append(f"{template!r}: {wrong}")
    assert not mistakes, f"{len(mistakes)} of {len(jobs)}:\n" + "\n".join(mistakes[:40])
    assert texts >= least_equal * len(jobs), f"only {texts} of {len(jobs)} gave text"


def print_jobs(snippets: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{{% set r = {e} %}}{{{{ r }}}}", SNIPPET_VARIABLES) for e in snippets]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates_of_models(path: Path) -> None:
    compare(jobs_of(path.read_text(encoding="utf-8")), least_equal=0.2)


def jobs_of(source: str) -> list[tuple[str, dict[str, Any]]]:
    """A template with every conversation."""
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    jobs = [
        (source, {"messages": conversation, **tokens, **variables})
        for conversation in CONVERSATIONS
        for variables in VARIABLES
    ]
    return [*jobs, (source, {})]


def test_template_of_the_published_model() -> None:
    """Also beside jinja2, as those of other models."""
    if not MODEL.exists():
        pytest.skip("the demo model is not installed")
    source = GGUFReader(MODEL).get_field("tokenizer.chat_template").contents()
    compare(jobs_of(source), least_equal=0.2)


def test_template_of_gguf_file(tmp_path: Path) -> None:
    if not MODEL.exists():
        pytest.skip("the demo model is not installed")
    for number, conversation in enumerate(CONVERSATIONS[:6]):
        messages = tmp_path / f"{number}.json"
        messages.write_text(json.dumps(conversation))
        result = run(MODEL, "--messages", messages, "--add-generation-prompt")
        assert result.returncode == 0, result.stderr
        parts = (
            ""
            if conversation[0]["role"] == "system"
            else (
                "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
                "trained by Hugging Face<|im_end|>\n"
            )
        )
        for message in conversation:
            parts += f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
        assert result.stdout == parts + "<|im_start|>assistant\n"


def test_statements() -> None:
    lines = STATEMENTS.read_text(encoding="utf-8").split("\n")
    # A line break inside a string literal is written as such in the file.
    snippets = [line for line in lines if line]
    assert len(snippets) > 200
    compare([(line, SNIPPET_VARIABLES) for line in snippets], least_equal=0.5)


def test_expressions() -> None:
    every = list(dict.fromkeys(expressions()))
    snippets = random.Random(0).sample(every, 6000)
    compare(print_jobs(snippets), least_equal=0.3)


@pytest.mark.parametrize("seed", range(3))
def test_random_expressions(seed: int) -> None:
    snippets = random_expressions(1500, seed)
    compare(print_jobs(snippets), least_equal=0.2)


def test_formats() -> None:
    compare(print_jobs(random_formats(2500, 3)), least_equal=0.3)


@pytest.mark.parametrize("seed", range(2))
def test_white_space_control(seed: int) -> None:
    snippets = random_layouts(1000, seed)
    compare([(text, SNIPPET_VARIABLES) for text in snippets], least_equal=0.4)


def test_render_command(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text(
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n"
        "{% endfor %}{% if add_generation_prompt %}>{% endif %}{{ tools is none }}"
    )
    messages = tmp_path / "m.json"
    messages.write_text('[{"role": "user", "content": "é"}]')
    more = tmp_path / "v.json"
    more.write_text('{"bos_token": "<s>"}')
    result = run(template, "--messages", messages, "--vars", more, "--add-generation-prompt")
    assert (result.returncode, result.stdout) == (0, "<s>[user] é\n>True")
    assert run("-", text="{{ add_generation_prompt }}").stdout == "False"


@pytest.mark.parametrize(
    ("template", "code", "words"),
    [
        ("a\n{{ x.y }}", 2, "line 2: 'x' is undefined"),
        ("{% if %}", 3, "line 1: "),
        ("{% include 'x' %}", 4, "'include' is not supported"),
        ("{{ raise_exception('no system role') }}", 2, "line 1: no system role"),
        (r"{{ raise_exception('a\nb\x1b[31m') }}", 2, r"line 1: a\nb\x1b[31m"),
        ("{{ 'a' * 999999999999 }}", 2, "too much memory"),
        ("{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}", 2, "too much memory"),
        ("\0\udc80", 3, "not valid UTF-8 at byte 1"),
    ],
)
def test_failures(template: str, code: int, words: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    path.write_bytes(template.encode("utf-8", "surrogateescape"))
    result = run(path)
    assert result.returncode == code
    assert result.stdout == ""
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


DEEP = "[" * 200_000 + "]" * 200_000


@pytest.mark.parametrize("text", ["", "[", '{"a": 1', "nul", pytest.param(DEEP, id="deep")])
def test_bad_json(text: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(text)
    template = tmp_path / "t.jinja"
    template.write_text("x")
    for option in ("--messages", "--vars"):
        result = run(template, option, bad)
        assert result.returncode == 3
        assert "bad.json" in result.stderr
    assert run(template, "--messages", tmp_path / "missing.json").returncode == 6


def test_a_deep_variable_of_a_batch() -> None:
    result = run("-", "--batch", text='{"template": "x", "variables": {"a": ' + DEEP + "}}")
    assert (result.returncode, result.stderr.count("\n")) == (3, 1)
    assert "line 1: JSON nested deeper than 1000 levels" in result.stderr

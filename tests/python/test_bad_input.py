"""What the tool reads and writes besides models: pipes, endless lines, files in the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from command_line import TOOL, peak_memory, run_tool
from tiny_models import SIZES, VOCABULARY, Case, build, tokenizer_metadata

MIB = 1 << 20
MOST_LINE = 1 << 29  # bytes


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return build(Case("tiny", "llama"), tmp_path_factory.mktemp("tiny")).path


# ---- Output --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bystander", ["file", "link"])
def test_output_touches_no_other_file(tiny: Path, tmp_path: Path, bystander: str) -> None:
    out, other, victim = tmp_path / "x.npy", tmp_path / "x.npy.part", tmp_path / "victim"
    out.write_text("old")
    victim.write_text("precious")
    if bystander == "link":
        other.symlink_to(victim)
    else:
        other.write_text("precious")
    assert run_tool("logits", tiny, "--tokens", 1, "--out", out).returncode == 0
    assert (other.read_text(), victim.read_text()) == ("precious", "precious")
    assert not out.is_symlink()
    assert np.load(out).shape == (1, VOCABULARY)
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy", "x.npy.part", "victim"}


def test_output_keeps_permissions_and_follows_links(tiny: Path, tmp_path: Path) -> None:
    out, link, new = tmp_path / "x.npy", tmp_path / "link", tmp_path / "new.npy"
    out.touch(0o640)
    out.chmod(0o640)
    assert run_tool("logits", tiny, "--tokens", 1, "--out", out).returncode == 0
    assert out.stat().st_mode & 0o777 == 0o640
    link.symlink_to("new.npy")
    assert run_tool("logits", tiny, "--tokens", 1, "--out", link).returncode == 0
    assert link.is_symlink()
    assert new.stat().st_mode & 0o777 == 0o666 & ~read_umask()
    assert run_tool("logits", tiny, "--tokens", 1, "--out", "/dev/null").returncode == 0


def read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("exists", [False, True], ids=["new", "replaced"])
@pytest.mark.parametrize("ending", ["signal", "error"])
def test_unfinished_output_leaves_nothing(
    tiny: Path, tmp_path: Path, exists: bool, ending: str
) -> None:
    """Of a file that grows too large, which is a signal, or an error where that is ignored."""
    out = tmp_path / "x.npy"
    if exists:
        out.write_text("old")
    listed = ",".join(["5"] * 200)
    process = subprocess.Popen(
        ["sh", "-c", 'ulimit -f 100 && exec "$0" "$@"', TOOL, "logits", tiny, "--tokens", listed,
         "--chunk", "8", "--out", out],
        stderr=subprocess.PIPE,
        restore_signals=ending == "signal",  # Python itself ignores it
    )  # fmt: skip
    _, err = process.communicate()
    if ending == "signal":
        assert process.returncode == -signal.SIGXFSZ
    else:
        assert (process.returncode, err.count(b"\n")) == (6, 1)
        assert b"x.npy: cannot write: " in err
    assert [path.name for path in tmp_path.iterdir()] == (["x.npy"] if exists else [])
    assert not exists or out.read_text() == "old"


# ---- Input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["fifo", "/dev/stdin"])
def test_a_template_in_a_pipe(source: str, tmp_path: Path) -> None:
    if source == "/dev/stdin":
        assert run_tool("template", "render", source, input="G{{ 1 + 1 }}").stdout == "G2"
        return
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("G{{ 1 + 1 }}",))
    writer.start()
    result = run_tool("template", "render", path, timeout=20)
    writer.join()
    assert (result.returncode, result.stdout) == (0, "G2")


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("generate", ["-i"]),
        ("tokenize", ["-f", "/dev/zero", "--jsonl"]),
        ("tokenize", ["-f", "/dev/zero"]),
    ],
    ids=["question", "line", "file"],
)
def test_text_without_an_end(tiny: Path, command: str, flags: list[str]) -> None:
    _, base = peak_memory("tokenize", tiny, "-p", "a")
    with open("/dev/zero") as zero:
        result, bytes_used = peak_memory(command, tiny, *flags, stdin=zero)
    assert result.returncode == 2
    assert f"holds more than {MOST_LINE} bytes" in result.stderr
    assert result.stderr.count("\n") == 1
    assert bytes_used < base + MOST_LINE + 32 * MIB  # no copy while it grows


def test_lines_of_any_length(tiny: Path) -> None:
    """Around the size that is read at once, and a last one without an end."""
    texts = ["c" * (16380 + i) for i in range(8)] + ["", "d" * 40000, "e"]
    lines = "\n".join(map(json.dumps, texts))
    result = run_tool("tokenize", tiny, "-f", "-", "--jsonl", "--no-special", input=lines)
    assert result.returncode == 0, result.stderr
    got = [len(json.loads(line)) for line in result.stdout.splitlines()]
    assert got == [len(text) for text in texts]


def test_memory_that_ends_is_its_own_exit_code(tiny: Path) -> None:
    limited = 'ulimit -v 200000 && exec "$0" "$@"'
    command = ["sh", "-c", limited, TOOL, "tokenize", tiny, "-f", "/dev/zero", "--jsonl"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (5, "tilewright tokenize: out of memory\n")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ("{}", "no JSON array"),
        ("[1]", "message 1 is no object with a role"),
        ('[{"role": "user", "content": "a"}, {"content": "b"}]', "message 2 is no object"),
        (b'"\xff\x1b[31m"', r"\xff"),
    ],
)
def test_messages_that_are_none(messages: str | bytes, words: str, tmp_path: Path) -> None:
    path, template = tmp_path / "m.json", tmp_path / "t.jinja"
    path.write_bytes(messages if isinstance(messages, bytes) else messages.encode())
    template.write_text("x")
    result = run_tool("template", "render", template, "--messages", path)
    assert (result.returncode, result.stderr.count("\n")) == (3, 1)
    assert "m.json: " in result.stderr
    assert words in result.stderr
    assert "\x1b" not in result.stderr


# ---- Messages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["TILEWRIGHT_NUM_THREADS", "TILEWRIGHT_ISA"])
def test_variables_are_shown_on_one_line(variable: str, tiny: Path) -> None:
    environment = {**os.environ, variable: "a\nb\x1b[31m"}
    result = run_tool("generate", tiny, "-p", "a", env=environment)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert r'"a\nb\x1b[31m"' in result.stderr


def test_paths_are_shown_on_one_line(tmp_path: Path) -> None:
    names = [tmp_path / "a\nb\x1b[31m", tmp_path / "c"]
    for path in names:
        path.write_text('{"results": []}')
    result = run_tool("compare", *names)
    assert (result.returncode, result.stderr.count("\n")) == (3, 1)
    assert r"a\nb\x1b[31m: no row has " in result.stderr
    for path, op in zip(names, ["exp", "log"], strict=True):
        path.write_text(json.dumps({"results": [{"op": op, "us_samples": [1, 2, 3, 4, 5]}]}))
    result = run_tool("compare", *names)
    assert (result.returncode, result.stderr.count("\n")) == (3, 1)
    assert r"a\nb\x1b[31m and " in result.stderr
    result = run_tool("compare", tmp_path, tmp_path)
    assert result.returncode == 6
    assert f"cannot read '{tmp_path}'" in result.stderr


@pytest.mark.parametrize("kind", ["fifo", "text"])
def test_a_calibration_that_is_none_is_ignored(kind: str, tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a\nb"
    folder.mkdir()
    path = folder / "machine.json"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_text("x")
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(folder)}
    command = ["generate", tiny, "--tokens", 5, "-n", 1, "--json"]
    result = run_tool(*command, env=environment, timeout=60)
    assert (result.returncode, result.stderr.count("\n")) == (0, 1)
    assert r"a\nb/machine.json: is no" in result.stderr


def test_what_the_model_lacks_is_said_before_it_computes(tiny: Path, tmp_path: Path) -> None:
    most = SIZES["max_position_embeddings"]
    out = tmp_path / "l.npy"
    for tokens, words in [
        ([1, VOCABULARY], f"--tokens: {VOCABULARY} is not in 0..{VOCABULARY - 1}"),
        ([1] * (most + 1), f"--tokens: {most + 1} tokens, the model's context is {most}"),
    ]:
        listed = ",".join(map(str, tokens))
        for command in (["logits", "--chunk", 1, "--out", out], ["generate"]):
            result = run_tool(command[0], tiny, "--tokens", listed, *command[1:])
            assert (result.returncode, result.stderr.count("\n")) == (2, 1)
            assert words in result.stderr
            assert not out.exists()


def test_a_prompt_without_tokens(tmp_path: Path) -> None:
    metadata = tokenizer_metadata()
    letters, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    at = letters.index("\u00ff")  # the letter of byte 0xff
    letters[at], kinds[at] = "not a byte", 3
    path = build(Case("tiny", "llama", extra=metadata), tmp_path).path
    result = run_tool("generate", path, "-p", b"\xff")
    assert result.returncode == 2
    assert r"no token for the prompt '\xff'" in result.stderr


def test_a_small_model_with_a_large_tokenizer(tmp_path: Path) -> None:
    path = build(Case("tiny", "llama", {"vocab_size": 100}), tmp_path).path
    result = run_tool("generate", path, "-p", "a")
    assert (result.returncode, result.stderr.count("\n")) == (3, 1)
    assert "tensor 'token_embd.weight': it has 100 rows" in result.stderr
    assert "(header at byte " in result.stderr


# ---- Templates of models -------------------------------------------------------------------------


def with_template(directory: Path, template: str) -> Path:
    extra = {"tokenizer.chat_template": template}
    return build(Case("chat", "llama", extra=extra), directory).path


@pytest.mark.parametrize(
    ("template", "code", "words"),
    [
        ("a\n{% if %}", 3, "line 2: "),
        ("{% include 'x' %}", 4, "line 1: the tag 'include' is not supported"),
        ("{{ raise_exception('no') }}", 2, "line 1: no"),
    ],
)
def test_bad_templates_name_file_and_place(
    template: str, code: int, words: str, tmp_path: Path
) -> None:
    path = with_template(tmp_path, template)
    place = path.read_bytes().index(b"tokenizer.chat_template") - 8
    for command in (["generate", path, "--chat", "-p", "x"], ["template", "render", path]):
        result = run_tool(*command)
        assert (result.returncode, result.stderr.count("\n")) == (code, 1)
        named = f"{path}: metadata 'tokenizer.chat_template' (at byte {place}), {words}"
        assert named in result.stderr


HUNGRY = {
    "repeat": "{{ 'x' * 100000000 }}",
    "split": "{{ ('a ' * 20000000).split() | length }}",
    "split at": "{{ ('a,' * 20000000).split(',') | length }}",
    "split from right": "{{ ('a,' * 6000000).rsplit(',') | length }}",
    "lines": "{{ ('a\n' * 16000000).splitlines() | length }}",
    "indent": "{{ ('\n' * 20000000) | indent(0) | length }}",
    "list": "{{ ('a' * 30000000) | list | length }}",
    "joined": "{% set n = namespace(s='x' * 99) %}{% for i in range(40) %}"
    "{% set n.s = n.s ~ n.s %}{% endfor %}",
    "printed": "{% for i in range(99999) %}{{ 'x' * 999 }}{% endfor %}",
    "upper": "{{ ('x' * 60000000).upper() | length }}",
    "escape": "{{ ('<' * 30000000) | escape | length }}",
    "replace": "{{ ('x' * 9000000).replace('x', 'yyy') | length }}",
}
TEMPLATE_BYTES = 64 * MIB


@pytest.mark.parametrize("name", HUNGRY)
def test_templates_stay_within_their_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "t").write_text(HUNGRY[name])
    _, base = peak_memory("template", "render", tmp_path / "empty")
    result, peak = peak_memory("template", "render", tmp_path / "t")
    assert result.returncode == 2
    assert "uses too much memory" in result.stderr
    assert peak - base <= TEMPLATE_BYTES + MIB


def test_long_prompts_are_refused_before_they_are_cut(tmp_path: Path) -> None:
    path = with_template(tmp_path, "{{ 'x' * 10000000 }}")
    _, base = peak_memory("generate", path, "--chat", "-p", "x", "-n", "0")
    for flags in (["--chat", "-p", "x"], ["-f", tmp_path / "text"]):
        (tmp_path / "text").write_text("x" * 10_000_000)
        result, peak = peak_memory("generate", path, *flags)
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert "the prompt has 10000000 bytes" in result.stderr
        assert peak < base + 60 * MIB

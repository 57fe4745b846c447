"""The files that the linters read: those in git, or about to be."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files(*suffixes: str) -> list[Path]:
    """Paths relative to the root of tracked and untracked, not ignored, files, sorted.

    Args:
        *suffixes: such as ".h"; none means every file.
    """
    output = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = {Path(name) for name in output.split("\0") if name}
    return sorted(
        path
        for path in paths
        if (not suffixes or path.suffix in suffixes) and (ROOT / path).is_file()
    )


def text(path: Path) -> str:
    """The text of a file; undecodable bytes are replaced."""
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
_TOKENS = re.compile(
    r'(?P<raw>R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")'
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')",
    re.DOTALL,
)


def without_literals(source: str) -> str:
    """C++ without comments and contents of literals; line numbers are kept."""

    def blank(match: re.Match[str]) -> str:
        lines = "\n" * match.group().count("\n")
        if match.group("comment"):
            return " " + lines
        return ("''" if match.group("char") else '""') + lines

    return _TOKENS.sub(blank, source)


def code_only(source: str) -> str:
    """The same without directives."""
    return _DIRECTIVE.sub(lambda match: "\n" * match.group().count("\n"), without_literals(source))

#!/usr/bin/env python3
"""Checks the length of files and functions and the number of macros against budget.toml."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tree

BUDGET = tomllib.loads((Path(__file__).parent / "budget.toml").read_text())
LIMITS = BUDGET["limits"]
CPP = (".h", ".cc", ".cu", ".cuh")
BANNED_NAMES = re.compile(
    r"(^|[_./-])(fast|optimized|new|v2|utils?|helpers?|manager|common|misc)([_./-]|$)"
)
NOT_A_FUNCTION = re.compile(
    r"^\s*(namespace|class|struct|union|enum|extern|concept)\b|[^=!<>]=\s*$"
)
FUNCTION_NAME = re.compile(r"([~\w:]+|operator\s*[^\s\w(]+|operator\s*\(\))\s*\(")
KEYWORDS = {"requires", "noexcept", "alignas", "decltype", "sizeof", "__attribute__", "explicit"}


@dataclass
class Function:
    """A function and its length in lines, from its signature to its closing brace."""

    name: str
    line: int
    lines: int


def signature_name(header: str) -> str | None:
    """The name of the function that the text before a `{` declares; None if it declares none."""
    header = re.sub(r"^(\s*(public|private|protected)\s*:)+", "", header)
    header = re.sub(r"^\s*template\s*<[^{}]*?>\s*(?=\w|\[)", "", header, flags=re.DOTALL)
    if "(" not in header or NOT_A_FUNCTION.search(header.strip()):
        return None
    names = [name for name in FUNCTION_NAME.findall(header) if name not in KEYWORDS]
    if not names:
        return None
    test = re.search(r"\bTEST(?:_F|_P)?\s*\(\s*(\w+)\s*,\s*(\w+)", header)
    return f"{test[1]}.{test[2]}" if test else names[0].split("::")[-1]


def cpp_functions(source: str) -> Iterator[Function]:
    """The functions at namespace or class level; lambdas count to the function around them."""
    code = tree.code_only(source)
    scopes: list[tuple[str | None, int]] = []  # name of the function or None, first line
    header_start = 0
    for match in re.finditer(r"[{};]", code):
        inside_function = any(name for name, _ in scopes)
        at = match.start()
        if match.group() == "{":
            name = None if inside_function else signature_name(code[header_start:at])
            text = code[header_start:at]
            first = header_start + len(text) - len(text.lstrip())
            scopes.append((name, code.count("\n", 0, first) + 1))
        elif match.group() == "}":
            if not scopes:
                continue
            name, line = scopes.pop()
            if name and re.match(r"\s*[,{]", code[at + 1 :]):
                continue  # a braced member initializer: the signature goes on
            if name:
                yield Function(name, line, code.count("\n", 0, at) + 2 - line)
        if not any(name for name, _ in scopes):
            header_start = at + 1


def python_functions(source: str) -> Iterator[Function]:
    """Every def in a Python module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            yield Function(node.name, node.lineno, last - node.lineno + 1)


def allowance(table: str, key: str, used: set[str]) -> int | None:
    """The exception in budget.toml for a file or function, marked as used."""
    entry = BUDGET.get(table, {}).get(key)
    if entry is None:
        return None
    if not entry.get("reason"):
        raise SystemExit(f"budget.toml: {table}.{key} gives no reason")
    used.add(f"{table}.{key}")
    return entry["lines"]


def check(path: Path, used: set[str]) -> Iterator[str]:
    """All complaints about one file."""
    name = path.as_posix()
    source = tree.text(path)
    if BANNED_NAMES.search(name):
        yield f"{name}: the name has a word that says nothing ({BANNED_NAMES.search(name)[2]})"
    lines = source.count("\n")
    limit = LIMITS["file_lines"]
    if lines > limit and lines > (allowance("files", name, used) or 0):
        yield f"{name}: {lines} lines, the budget is {limit}"
    functions = python_functions(source) if path.suffix == ".py" else cpp_functions(source)
    limit = LIMITS["function_lines"]
    for function in functions:
        key = f"{name}:{function.name}"
        if function.lines > limit and function.lines > (allowance("functions", key, used) or 0):
            yield (
                f"{name}:{function.line}: {function.name} has {function.lines} lines, "
                f"the budget is {limit}"
            )


def check_macros() -> Iterator[str]:
    """Complains if the library defines too many macros; those undefined again do not count."""
    macros = lines = 0
    for path in tree.files(*CPP):
        if path.parts[0] != "tilewright":
            continue
        source = tree.text(path)
        lines += source.count("\n")
        undefined = set(re.findall(r"^\s*#\s*undef\s+(\w+)", source, re.MULTILINE))
        macros += len(set(re.findall(r"^\s*#\s*define\s+(\w+)", source, re.MULTILINE)) - undefined)
    limit = LIMITS["macros_per_1000_lines"]
    # A few macros are fixed costs: below 10,000 lines the rate says nothing.
    if macros > limit * max(lines, 10_000) / 1000:
        yield f"tilewright/: {macros} macros in {lines} lines, the budget is {limit} per 1000"


def main() -> int:
    """Checks every C++ and Python file."""
    used: set[str] = set()
    paths = tree.files(*CPP, ".py")
    complaints = [line for path in paths for line in check(path, used)]
    complaints += check_macros()
    for table in ("files", "functions"):
        complaints += [
            f'budget.toml: {table}."{key}" is not needed'
            for key in BUDGET.get(table, {})
            if f"{table}.{key}" not in used
        ]
    print("\n".join([*complaints, f"budget: {len(paths)} files, {len(complaints)} complaints"]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

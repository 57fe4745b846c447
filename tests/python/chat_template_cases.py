"""Conversations and template snippets for the comparison with Jinja, most of them generated."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from typing import Any

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather at a place & <time>.\nGives degrees.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City, e.g. 'Zürich' or \"東京\""},
                "unit": {
                    "type": "string",
                    "enum": ["C", "F"],
                    "description": "Unit",
                    "default": "C",
                },
                "days": {"type": ["integer", "null"], "description": "Days", "default": 3},
                "x-hint": {"type": "array", "items": {"type": "number"}, "description": "Hints"},
                "where": {
                    "type": "object",
                    "properties": {"lat": {"type": "number"}, "on": {"type": "boolean"}},
                    "required": ["lat"],
                    "description": "Position",
                },
                "how": {
                    "oneOf": [{"type": "string", "default": "a"}, {"type": "object"}],
                    "description": "Either",
                },
            },
            "required": ["place"],
        },
    },
}
CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "The time",
        "parameters": {"type": "object", "properties": {}},
    },
}


def user(content: Any) -> dict:
    return {"role": "user", "content": content}


def assistant(content: Any, **more: Any) -> dict:
    return {"role": "assistant", "content": content, **more}


def system(content: Any) -> dict:
    return {"role": "system", "content": content}


def call(name: str, arguments: Any, call_id: str = "abcdefghi") -> dict:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


CALLS = [call("get_weather", {"place": "Zürich", "days": 2, "deep": {"a": [1, 2.5, None, True]}})]
RESULT = {"role": "tool", "content": '{"t": 21.5}', "tool_call_id": "abcdefghi", "name": "w"}

CONVERSATIONS: list[list[dict]] = [
    [user("Hello")],
    [user("")],
    [system(""), user("Hi")],
    [system("Be brief."), user("Hi"), assistant("Hello!"), user("And you?")],
    [user("Hi"), assistant("Hello!"), user("More"), assistant("Done.")],
    [user("  spaces \n\n around \t")],
    [system("S"), user("a"), system("again"), user("b")],
    [user("a"), user("b")],
    [assistant("I begin"), user("ok")],
    [system("only system")],
    [user("日本語 ß ﬁ 👩‍👩‍👧 é e\u0301 \u200b\u00a0end"), assistant("İstanbul Σίσυφος ΑΣ")],
    [user("{{ not }} {% a %} <b>&amp; \"quotes\" 'single' \\ \x00\x1f\x7f")],
    [user("q"), assistant("<think>\nhm\n</think>\n\nanswer"), user("next"), assistant("x")],
    [user("q"), assistant("<think>why</think>a", reasoning_content="because")],
    [user("w?"), assistant("", tool_calls=CALLS), RESULT, assistant("21.5"), user("thanks")],
    [user("w?"), assistant(None, tool_calls=CALLS), RESULT],
    [user("w?"), assistant("let me see", tool_calls=CALLS + CALLS), RESULT, RESULT],
    [system("/no_think be nice"), user("w?"), assistant("t", tool_calls=[call("clock", {})])],
    [system("/system_override only this"), user("x")],
    [user([{"type": "text", "text": "look "}, {"type": "image"}, {"type": "text", "text": "!"}])],
    [
        system([{"type": "text", "text": "sys"}]),
        user("x"),
        assistant([{"type": "text", "text": "y"}]),
    ],
    [{"role": "developer", "content": "dev"}, user("x"), {"role": "alien", "content": "?"}],
    [user("line\r\nbreaks\rhere\n"), assistant("\n\nleading"), user("trailing\n\n")],
    [user(5), assistant(True)],
    [user("no content next"), {"role": "assistant"}],
    [{"role": "system", "content": "s", "tools": "[t]"}, user("x")],
    [],
]

VARIABLES: list[dict[str, Any]] = [
    {"add_generation_prompt": False, "tools": None, "documents": None},
    {"add_generation_prompt": True, "tools": None, "documents": None, "enable_thinking": False},
    {"add_generation_prompt": True, "tools": [WEATHER, CLOCK], "documents": None},
    {
        "add_generation_prompt": False,
        "tools": [CLOCK],
        "documents": [{"text": "doc one"}, {"text": "doc two"}],
        "controls": {"length": "short", "citations": True},
        "date_string": "01 Jan 2025",
        "tools_in_user_message": False,
        "builtin_tools": ["code_interpreter", "clock"],
    },
    {"tools": []},
]

# What the snippets below can refer to.
SNIPPET_VARIABLES: dict[str, Any] = {
    "n": 7,
    "f": 2.5,
    "s": "Héllo Wörld ß",
    "l": [3, 1, 2],
    "d": {"b": 1, "a": "x", "items": [1]},
    "messages": CONVERSATIONS[3],
    "none_value": None,
}

VALUES = [
    "0", "1", "-7", "42", "2.5", "-0.0", "1e16", "1e-5", "123456789.125", "true", "false", "none",
    "''", "'a'", "'Hello World'", "'  pad\\n'", "'12'", "' -3.75e1 '", "'a,b,,c'", "s", "'ΑΣ ǆ ß'",
    "'it\\'s'", "'\"q\"'", "'\\u200b\\x07é\\\\'", "[]", "[1, 2, 3]", "['b', 'A', 'c', 'A']", "l",
    "[1, 'a', none]", "[[2, 'x'], [1, 'y']]", "(1,)", "()", "(1, 'é')", "{}", "d",
    "{'k': [1, {'z': none}]}", "{1: 'i', 2.5: 'f', none: 0, true: 3}", "range(4)",
    "range(5, -5, -3)", "missing", "messages",
    "[{'n': 'x', 'v': 2}, {'n': 'y', 'v': 1}, {'n': 'x', 'v': 3}]", "d.items()", "d.keys()",
    "namespace(a=1).a", "[0.1, 0.2]", "['x', missing]", "'line1\\nline2\\r\\nline3\\x0bz'",
    "none_value",
]  # fmt: skip

NUMBERS = [
    "0", "7", "-42", "255", "1234567", "2.5", "-0.0", "3.14159", "1e16", "1e-5", "123456.789",
    "1e22", "0.1", "9223372036854775807", "-1234.5", "99999.95",
]  # fmt: skip

FILTERS = [
    "trim", "trim('d ')", "upper", "lower", "title", "capitalize", "length", "count", "string",
    "list", "first", "last", "reverse | list", "reverse", "join", "join(', ')",
    "join('-', attribute='n')", "replace('a', 'bb')", "replace('l', '', 1)", "replace('', '.')",
    "replace(1, 2)", "int", "int(9)", "int(base=16)", "int(0, 2)", "float", "float(1.5)", "abs",
    "round", "round(1)", "round(2, 'ceil')", "round(method='floor')", "round(-1)", "tojson",
    "tojson(indent=2)", "tojson(true)", "tojson(indent=1, sort_keys=true)",
    "tojson(separators=(',', ':'))", "tojson(indent='--')", "default('D')", "d('D', true)",
    "default", "items | list", "dictsort", "dictsort(by='value')", "dictsort(reverse=true)",
    "dictsort(true)", "unique | list", "unique(true) | list", "sort", "sort(reverse=true)",
    "sort(case_sensitive=true)", "sort(attribute='v')", "sort(attribute='n,v')",
    "sort(attribute='0')", "min", "max", "max(attribute='v')", "min(true)", "sum", "sum(start=10)",
    "sum('v')", "sum(start=[])", "map('upper') | list", "map(attribute='n') | list",
    "map(attribute='q', default='-') | list", "map(attribute='1') | join",
    "map('string') | join('|')", "map('replace', 'a', 'z') | list", "map('int', default=-1) | list",
    "select | list", "reject | list", "select('string') | list", "select('in', [1, 'a']) | list",
    "reject('none') | list", "selectattr('v') | list",
    "selectattr('v', 'gt', 1) | map(attribute='n') | list",
    "rejectattr('n', 'equalto', 'x') | list", "select('odd') | list",
    "selectattr('role', '==', 'user') | list", "indent", "indent(2, true)",
    "indent('> ', blank=true)", "safe", "escape", "e | upper", "map('first') | list",
    "map('length') | sum", "batch_of_nothing", "upper | lower | length", "map | list", "join(1)",
    "trim(1)", "indent(1, 2, 3, 4)", "length(1)", "map(attribute='n', x=1) | list",
    "string | length", "list | tojson", "list | last", "first | default('empty')",
]  # fmt: skip

TESTS = [
    "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping",
    "iterable", "sequence", "true", "false", "callable", "odd", "even", "divisibleby(3)",
    "divisibleby 2", "lower", "upper", "eq 1", "equalto('a')", "ne(none)", "gt 1", "lt 'b'",
    "ge 2.5", "le [1]", "in [1, 'a', none]", "in 'abc'", "in d", "not none", "not in [1]",
    "sameas none", "sameas(true)", "greaterthan 0", "lessthan(2)", "not defined", "filter", "test",
    "escaped_or_what",
]  # fmt: skip

METHODS = [
    "upper()", "lower()", "title()", "capitalize()", "strip()", "strip('a ')", "lstrip()",
    "rstrip('d')", "split()", "split(',')", "split(none, 1)", "split(' ', 1)",
    "split(sep=',', maxsplit=1)", "rsplit(' ', 1)", "rsplit(none, 1)", "rsplit(',')", "split('')",
    "startswith('H')", "endswith(('d', 'c'))", "startswith('é', 1)", "find('l')", "find('')",
    "find('o', 5)", "find('z')", "rfind('l')", "rfind('')", "index('l')", "count('l')", "count('')",
    "replace('l', 'LL')", "replace('l', 'L', 1)", "replace('', '-')", "join(['x', 'y'])",
    "join('ab')", "join([1])", "join(missing)", "splitlines()", "splitlines(true)", "isdigit()",
    "isupper()", "islower()", "isspace()", "removeprefix('He')", "removesuffix('ld')", "get('a')",
    "get('q')", "get('q', 5)", "get([])", "items()", "items() | list", "keys()", "values() | list",
    "items", "append(1)", "pop()", "update({})", "index(1)", "count(1)", "copy()", "nothing",
    "nothing.more", "a", "b.c", "0", "0.1", "_private", "strip(1)", "upper(1)", "find()",
    "split(chars=1)",
]  # fmt: skip

SUBSCRIPTS = [
    "0", "-1", "5", "1:", ":2", ":-1", "::2", "::-1", "2:0:-1", "-2:", "::0", "'a'", "'items'",
    "none", "true", "1.0", "missing", "'k'", "none:none", "'x':", "-100:100", "1,2", "[]", "3:1",
    "9:", "'upper'",
]  # fmt: skip

BINARY = [
    "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
    "and", "or",
]  # fmt: skip


def expressions() -> Iterator[str]:
    """Every construct on every kind of value."""
    for value in VALUES:
        yield value
        yield from (f"({value}) | {name}" for name in FILTERS)
        yield from (f"({value}) is {name}" for name in TESTS)
        yield from (f"({value}).{name}" for name in METHODS)
        yield from (f"({value})[{subscript}]" for subscript in SUBSCRIPTS)
        yield from (f"{op} ({value})" for op in ("-", "+", "not"))
    operands = [v for v in VALUES if v not in {"1e16", "messages", "d.items()", "d.keys()"}]
    pairs = list(itertools.product(operands, operands))
    chosen = random.Random(1)
    for op in BINARY:
        for left, right in chosen.sample(pairs, 250):
            yield f"({left}) {op} ({right})"


def random_expressions(count: int, seed: int) -> Iterator[str]:
    """Expressions with few parentheses: precedence, chaining and nesting."""
    rng = random.Random(seed)

    def generate(depth: int) -> str:
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(VALUES)
        kind = rng.randrange(10)
        inner = generate(depth - 1)
        if kind <= 3:
            return f"{inner} {rng.choice(BINARY)} {generate(depth - 1)}"
        if kind == 4:
            return f"{rng.choice(['not ', '-', '+'])}{inner}"
        if kind == 5:
            return f"{inner} | {rng.choice(FILTERS)}"
        if kind == 6:
            return f"{inner} is {rng.choice(TESTS[:-1])}"
        if kind == 7:
            return f"{inner} if {generate(depth - 1)} else {generate(depth - 1)}"
        if kind == 8:
            return f"({inner})"
        return rng.choice(
            [
                f"[{inner}, {generate(depth - 1)}]",
                f"({inner})[{rng.choice(SUBSCRIPTS)}]",
                f"{{'k': {inner}}}",
                f"({inner}).{rng.choice(METHODS)}",
            ]
        )

    for _ in range(count):
        yield generate(rng.randrange(1, 5))


def random_formats(count: int, seed: int) -> Iterator[str]:
    """Python's format specifications and % conversions, most of them valid."""
    rng = random.Random(seed)

    def some(share: float, choices: Iterable[str]) -> str:
        return rng.choice(list(choices)) if rng.random() < share else ""

    def number(share: float, most: int) -> str:
        return some(share, map(str, range(most)))

    def spec() -> str:
        align = some(0.4, ["<", ">", "^", "=", "*^", "0>", "\u00e9<"])
        precision = some(0.4, [f".{n}" for n in range(9)])
        return (
            align + some(0.25, "+- ") + some(0.15, "#") + some(0.2, "0") + number(0.5, 14)
            + some(0.15, ",_") + precision + some(0.6, "sdxXobceEfFgG%n")
        )  # fmt: skip

    def conversion() -> str:
        flags = some(0.4, ["-", "+", " ", "#", "0", "+0", "-0", " 0"])
        precision = some(0.4, [f".{n}" for n in range(9)])
        return "%" + flags + number(0.5, 12) + precision + rng.choice("sssdiuxXoeEfFgGcr%q")

    values = [*NUMBERS, "'a'", "s", "''", "none", "[1, 'a']", "{'a': 1}", "missing", "true"]
    fields = [
        "{", "}", "{0}{}", "{}{0}", "{a}{0}", "{{}}", "{a[0]}", "{a.b}", "{0[a]}", "{a!s:>5}",
        "{0!q}", "{!r:^9}", "{:{a}}", "{:>{a}}", "{2}", "{b}", "{0.upper}", "{0[-1]}", "{0[x",
        "{ 0}", "{a!}", "{:{:{}}}", "{}{}", "{a:}", "x{a}y{0}z",
    ]  # fmt: skip
    for _ in range(count):
        one, two, three = (rng.choice(values) for _ in range(3))
        yield rng.choice([
            f"'{{:{spec()}}}|{{!r}}|{{}}'.format({one}, {two}, {three})",
            f"'{rng.choice(fields)}'.format({one}, a={rng.choice([two, '4', '[5]'])})",
            f"'{conversion()} {conversion()}' % ({one}, {two})",
            f"'{conversion()}' % {one}",
            f"'{conversion()}' | format({one})",
            f"'%(a)s{conversion()}' % {{'a': {one}}}",
        ])  # fmt: skip


def random_layouts(count: int, seed: int) -> Iterator[str]:
    """Text, newlines, tags and white space control in any order."""
    rng = random.Random(seed)
    space = [*"\n \ta-{}\x0b\u00a0é", "  \n", "\n\n", "b ", "\r\n", "%}"]

    def tag(kind: str, text: str) -> str:
        opening, closing = {"%": ("{%", "%}"), "{": ("{{", "}}"), "#": ("{#", "#}")}[kind]
        end_signs = ["", "", "-"] if kind == "{" else ["", "", "-", "+"]
        return f"{opening}{rng.choice(['', '', '-', '+'])} {text} {rng.choice(end_signs)}{closing}"

    def generate(depth: int) -> str:
        out = ""
        for _ in range(rng.randrange(5)):
            out += "".join(rng.choice(space) for _ in range(rng.randrange(4)))
            kind = rng.randrange(8 if depth else 4)
            if kind == 0:
                out += tag("{", rng.choice(["1", "'x\n'", "n", "{'a': {}}", "'}}'", "'%}'"]))
            elif kind == 1:
                out += tag("#", rng.choice(["c", "\n", "{{ x }}", "-", "{% if"]))
            elif kind == 2:
                out += tag("%", "set q = 1")
            elif kind == 3:
                out += (
                    tag("%", "raw")
                    + rng.choice(["{{ x }}", "\n {% y %}\n", "", " z "])
                    + tag("%", "endraw")
                )
            elif kind <= 5:
                out += tag("%", "if n") + generate(depth - 1)
                out += tag("%", "else") + generate(depth - 1) + tag("%", "endif")
            else:
                out += tag("%", "for i in l") + generate(depth - 1) + tag("%", "endfor")
        return out

    for _ in range(count):
        yield generate(3)

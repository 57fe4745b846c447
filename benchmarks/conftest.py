"""Options of the benchmarks under pytest: those of run.py."""

from __future__ import annotations

import pytest

OPTIONS = ("suite", "mode", "peers", "backend", "pass", "threads", "dtype")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What run.py takes; -k takes the place of --op."""
    for name in OPTIONS:
        parser.addoption(f"--{name}", dest=f"run_{name}", help="as benchmarks/run.py's")


@pytest.fixture
def run_options(request: pytest.FixtureRequest) -> list[str]:
    """The options, as they were given."""
    given = {name: request.config.getoption(f"run_{name}") for name in OPTIONS}
    return [f"--{name}={value}" for name, value in given.items() if value is not None]

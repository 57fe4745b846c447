"""Options of the benchmarks under pytest: those of run.py."""

from __future__ import annotations

import pytest

OPTIONS = {"suite": "smoke", "mode": "timing", "peers": "torch,inductor", "backend": "cpu"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """What run.py takes."""
    for name, default in OPTIONS.items():
        parser.addoption(f"--{name}", default=default, help=f"as benchmarks/run.py's ({default})")


@pytest.fixture
def run_options(request: pytest.FixtureRequest) -> list[str]:
    """The options, as they were given."""
    return [f"--{name}={request.config.getoption(f'--{name}')}" for name in OPTIONS]

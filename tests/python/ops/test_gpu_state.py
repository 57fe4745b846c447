"""What the library tells of a GPU."""

from __future__ import annotations

import pytest

import tilewright
from tilewright import _library


def test_state_is_none_where_there_is_no_gpu() -> None:
    assert tilewright.gpu_state(1000) is None
    assert _library.load().tw_last_error().decode().startswith("cuda: ")


def test_state_of_a_gpu() -> None:
    state = tilewright.gpu_state()
    if state is None:
        pytest.skip(_library.load().tw_last_error().decode())
    assert 100 < state.sm_mhz < 5000
    assert 0 <= state.power_w < 5000

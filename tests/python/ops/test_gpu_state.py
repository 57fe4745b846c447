"""What the library tells of a GPU, and whose memory its kernels take there."""

from __future__ import annotations

import ctypes

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


def test_an_allocator_has_both_functions() -> None:
    library = _library.load()
    context = ctypes.c_void_p()
    _library.check(library.tw_context_new(1, ctypes.byref(context)))
    some = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: None)
    try:
        set_allocator = library.tw_context_set_cuda_allocator
        assert set_allocator(context, some, None, None) == 1
        assert "together or not at all" in library.tw_last_error().decode()
        assert set_allocator(context, some, some, None) == 0
        assert set_allocator(context, None, None, None) == 0
    finally:
        library.tw_context_free(context)

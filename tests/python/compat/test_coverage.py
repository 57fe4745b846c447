"""What the compatibility modules provide, and how they refuse the rest."""

from __future__ import annotations

import pytest
from tilewright.compat import coverage, tilegym, tileops
from tilewright.compat._coverage import refuse

from tilewright import _schema

COVERAGE = coverage()


def test_every_upstream_name_is_provided_or_missing() -> None:
    counts = {name: len(c.provided) + len(c.missing) for name, c in COVERAGE.items()}
    assert counts == {
        "forge": 4,
        "tilegym": 67,
        "tilegym.liger": 26,
        "tilegym.unsloth": 15,
        "tilegym.flashinfer": 10,
        "tileops": 236,
        "tileops.ops": 305,
    }
    for c in COVERAGE.values():
        assert not c.provided.keys() & c.missing.keys()


def test_the_operators_that_serve_are_in_the_catalog() -> None:
    used = {op for c in COVERAGE.values() for ops in c.provided.values() for op in ops}
    assert used <= _schema.operators().keys()
    assert "softmax: softmax" in str(COVERAGE["tilegym"])


def test_missing_operators_say_what_is_missing() -> None:
    refused = refuse("tilewright.compat.some", {"fft": "Fourier transform"}, "fft")
    with pytest.raises(NotImplementedError, match=r"some\.fft: the catalog has no Fourier"):
        refused(1)
    for module in (tilegym, tileops):
        with pytest.raises(AttributeError, match="no_such_operator"):
            _ = module.no_such_operator

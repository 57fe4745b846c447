"""How GPUs multiply float32 matrices, named as PyTorch's own switch is."""

from __future__ import annotations

from ctypes import byref, c_char_p

from tilewright import _library


def set_float32_matmul_precision(precision: str) -> None:
    """Chooses how GPUs multiply float32 matrices, in the whole process.

    The counterpart of `torch.set_float32_matmul_precision`, which it neither reads nor sets. CPUs
    multiply float32 in float32 whatever is set.

    Args:
        precision: "highest", in float32, which is the default unless the environment variable
            TILEWRIGHT_FLOAT32_MATMUL_PRECISION says otherwise; or "high", by a Hopper GPU's tensor
            cores, which read 11 bits of the mantissas (tf32) and add up in float32.

    Raises:
        ValueError: it is neither.

    Example:
        >>> import tilewright
        >>> tilewright.set_float32_matmul_precision("high")
        >>> tilewright.get_float32_matmul_precision()
        'high'
        >>> tilewright.set_float32_matmul_precision("highest")
    """
    if not isinstance(precision, str):
        raise TypeError(f"precision of float32 products: {precision!r} is no string")
    _library.check(_library.load().tw_set_float32_matmul_precision(precision.encode()))


def get_float32_matmul_precision() -> str:
    """What was set last, or is the default: "highest" or "high"."""
    name = c_char_p()
    _library.check(_library.load().tw_float32_matmul_precision(byref(name)))
    assert name.value is not None
    return name.value.decode()

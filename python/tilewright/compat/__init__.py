"""The operators of other libraries by their own names, arguments and layouts.

`tilewright.compat.forge`, `.tilegym`, `.tileops` map calls written for forge-cute-py, TileGym and
TileOPs onto tilewright's operators. What the catalog cannot serve yet raises NotImplementedError
and says what is missing; `coverage()` lists both.

Example:
    >>> import torch
    >>> from tilewright.compat import tilegym
    >>> tilegym.softmax(torch.zeros(1, 4))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
"""

from __future__ import annotations

from tilewright.compat._coverage import Coverage, coverage

__all__ = ["Coverage", "coverage"]

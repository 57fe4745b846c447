"""Importing this makes every operator a torch operator: torch.ops.tilewright.NAME.

NAME.out fills given tensors; where outputs are optional, NAME.full returns these too.

Example:
    >>> import torch
    >>> import tilewright.torch
    >>> torch.ops.tilewright.exp(torch.zeros(2))
    tensor([1., 1.])
"""

from __future__ import annotations

from tilewright._torch import load

load()

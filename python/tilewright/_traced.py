"""Records of calls that torch.compile made PyTorch's own nodes. Imports PyTorch.

The library does not see these run. Where somebody listens while a graph is made, it has a node
beside them that tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilewright import _explain

_TOLD = torch.zeros(())  # what the node is declared to change, or it would be dropped as unused


def register(library: Any) -> None:
    """Adds the node's operator to a torch.library.Library of the namespace tilewright_explain."""
    library.define("record(Tensor(a!) told, Tensor[] of, str op, str backend, str kernel) -> ()")
    library.impl("record", _record, "CompositeExplicitAutograd")
    torch.library.register_fake("tilewright_explain::record", lambda *_: None, lib=library)


def tell(op: str, backend: str, kernel: str, arguments: Sequence[Any]) -> None:
    """Called as a call of an operator is traced: each run of the graph leaves a record."""
    tensors = [value.detach() for value in arguments if isinstance(value, torch.Tensor)]
    torch.ops.tilewright_explain.record(_TOLD, tensors, op, backend, kernel)


def _record(
    _told: torch.Tensor, tensors: list[torch.Tensor], op: str, backend: str, kernel: str
) -> None:
    _explain.observed_in_graph(op, backend, kernel, tensors)

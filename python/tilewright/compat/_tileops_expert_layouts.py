"""How TileOPs lays out the rows of experts: one after the other, or in slabs of the same size."""

from __future__ import annotations

import dataclasses
import enum
import math

import torch


class ContiguousPacking(str, enum.Enum):
    """Whether each expert's rows begin where the last one's end, or at a multiple."""

    TIGHT = "tight"
    ALIGNED = "aligned"


class ContiguousMetadata(str, enum.Enum):
    """What tells experts' rows: where each expert's end, or the expert of each row."""

    PHYSICAL_PSUM = "physical_psum"
    PER_ROW = "per_row"


@dataclasses.dataclass(frozen=True)
class ContiguousLayoutSpec:
    """Rows [P, C] by expert, those of an expert from a multiple of the alignment on."""

    packing: ContiguousPacking
    metadata_kind: ContiguousMetadata
    alignment: int = 1

    def __post_init__(self) -> None:
        """Refuses an alignment that does not fit the packing."""
        if self.packing is ContiguousPacking.TIGHT and self.alignment != 1:
            raise ValueError("tight contiguous packing requires alignment == 1")
        if self.packing is ContiguousPacking.ALIGNED and self.alignment <= 1:
            raise ValueError("aligned contiguous packing requires alignment > 1")

    @classmethod
    def tight_physical_psum(cls) -> ContiguousLayoutSpec:
        """No gaps, told by where experts end."""
        return cls(ContiguousPacking.TIGHT, ContiguousMetadata.PHYSICAL_PSUM)

    @classmethod
    def tight_per_row(cls) -> ContiguousLayoutSpec:
        """No gaps, told row by row."""
        return cls(ContiguousPacking.TIGHT, ContiguousMetadata.PER_ROW)

    @classmethod
    def aligned_physical_psum(cls, alignment: int) -> ContiguousLayoutSpec:
        """Experts begin at multiples, told by where their rows end."""
        return cls(ContiguousPacking.ALIGNED, ContiguousMetadata.PHYSICAL_PSUM, alignment)

    @classmethod
    def aligned_per_row(cls, alignment: int) -> ContiguousLayoutSpec:
        """Experts begin at multiples, told row by row: gaps by the expert before them."""
        return cls(ContiguousPacking.ALIGNED, ContiguousMetadata.PER_ROW, alignment)

    @property
    def kind(self) -> str:
        """Which of the two layouts this is."""
        return "contiguous"

    @property
    def selection_key(self) -> str:
        """The name of its constructor."""
        return f"{self.packing.value}_{self.metadata_kind.value}"

    @property
    def max_m(self) -> None:
        """Experts have as many rows as they have."""
        return None

    def __repr__(self) -> str:
        """The call that makes it."""
        alignment = "" if self.alignment == 1 else str(self.alignment)
        return f"ContiguousLayoutSpec.{self.selection_key}({alignment})"

    def capacity(self, routes: int, experts: int) -> int:
        """How many rows these routes need at most."""
        most = routes + experts * (self.alignment - 1)
        return -(-most // self.alignment) * self.alignment

    def bounds(
        self, metadata: torch.Tensor, experts: int
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Where experts' rows end, and begin if that is not where the last one's end."""
        if self.metadata_kind is ContiguousMetadata.PER_ROW:
            names = torch.arange(experts, dtype=metadata.dtype, device=metadata.device)
            return torch.searchsorted(metadata, names, right=True).int(), None
        if self.packing is ContiguousPacking.TIGHT:
            return metadata, None
        after = -(-metadata[:-1] // self.alignment) * self.alignment
        return metadata, torch.nn.functional.pad(after, (1, 0))


@dataclasses.dataclass(frozen=True)
class MaskedLayoutSpec:
    """Slabs [E, max_m, C] of rows, of which the first ones count."""

    max_m: int

    def __post_init__(self) -> None:
        """Refuses slabs of less than nothing."""
        if self.max_m < 0:
            raise ValueError("max_m must be non-negative")

    @property
    def kind(self) -> str:
        """Which of the two layouts this is."""
        return "masked"

    @property
    def selection_key(self) -> str:
        """TileOPs' name for it."""
        return "masked_predicated"


@dataclasses.dataclass(frozen=True)
class RoutingEpilogueSpec:
    """What the sums of each token's experts are multiplied by."""

    routed_scaling_factor: float = 1.0

    def __post_init__(self) -> None:
        """Refuses a factor that is not positive."""
        if not math.isfinite(self.routed_scaling_factor) or self.routed_scaling_factor <= 0:
            raise ValueError("routed_scaling_factor must be finite and positive")


Layout = ContiguousLayoutSpec | MaskedLayoutSpec

"""TileOPs' Fourier transform and its means of chunks."""

from __future__ import annotations

import torch

from tilewright import ops
from tilewright.compat._coverage import provided, uses
from tilewright.compat._tensors import tensor, unflatten


@uses("fft")
def fft_c2c(input: torch.Tensor) -> torch.Tensor:
    """The discrete Fourier transform along the last dimension."""
    if not input.is_complex() or input.dim() == 0:
        raise ValueError(f"fft_c2c: input must be rows of complex numbers, not {input.dtype}")
    pairs = torch.view_as_real(input.resolve_conj())
    out = tensor(ops.fft(pairs.flatten(0, -3) if pairs.dim() > 2 else pairs[None]))
    return torch.view_as_complex(out.view(pairs.shape))


@uses("segment_mean")
def mean_pooling(
    x: torch.Tensor,
    offsets: torch.Tensor,
    indices: torch.Tensor,
    *,
    batch_size: int,
    seq_len: int,
    heads: int,
    dim: int,
    chunk_size: int,
    chunks_per_batch: int,
    seq_num: int,
    use_offsets: int,
) -> torch.Tensor:
    """The means of chunks of x [B, T, H, D].

    With use_offsets, of the sequences between the offsets: indices [chunks, 2] name the sequence
    and the chunk in it.
    """
    if use_offsets:
        sequence, place = indices.long().unbind(-1)
        limits = offsets.long()
        starts = limits[sequence] + place * chunk_size
        ends = torch.minimum(starts + chunk_size, limits[sequence + 1])
    else:
        starts = torch.arange(chunks_per_batch, device=x.device) * chunk_size
        ends = (starts + chunk_size).clamp(max=x.shape[1])
    return unflatten(tensor(ops.segment_mean(x.flatten(2), starts, ends)), 2, *x.shape[2:])


__all__ = list(provided(vars()))

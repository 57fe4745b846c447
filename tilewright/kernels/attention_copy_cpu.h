// Copies of a block's keys and values for all rows of a tile of attention, on the CPU: packed
// (attention_pack_cpu.h), keys with their rotated dims behind them, and multiplied by those scales
// that do not hold for a whole score or weight.
#pragma once

#include "tilewright/kernels/attention_pack_cpu.h"

namespace tw::kernels::attention_detail {

/// Multiplies what pack_keys copied by scales, of which each `dims` of a key have one of `parts`.
template <class P>
__attribute__((noinline)) void scale_keys(P p, const KeySource<float>& scales, int64_t first,
                                          int64_t end, int64_t dims, int64_t parts, int64_t depth,
                                          float* to) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  alignas(64) float scale[kKeyBlock];
  for (int64_t part = 0; part < parts; ++part) {
    copy_scales(p, scales.from_dim(part), first, end, scale);
    for (int64_t j = 0; j < end - first; j += kPanel<P>) {
      float* row = to + j * depth + part * dims * kPanel<P>;
      const V low = tile::load<V>(scale + j), high = tile::load<V>(scale + j + kN);
      for (int64_t d = 0; d < dims; ++d, row += kPanel<P>) {
        tile::store(row, tile::load<V>(row) * low);
        tile::store(row + kN, tile::load<V>(row + kN) * high);
      }
    }
  }
}

/// The same of what pack_values copied, `keys` of the block that begins at `start`.
template <class P>
__attribute__((noinline)) void scale_values(P p, const KeySource<float>& scales, int64_t start,
                                            KeyRange keys, int64_t dims, int64_t parts, float* to) {
  alignas(64) float scale[kKeyBlock];
  for (int64_t part = 0; part < parts; ++part) {
    copy_scales(p, scales.from_dim(part), start + keys.begin, start + keys.end, scale);
    const int64_t end = (part + 1) * dims;
    for (int64_t d = part * dims, next; d < end; d = next) {  // a panel's share of the part
      next = round_up(d + 1, kPanel<P>) < end ? round_up(d + 1, kPanel<P>) : end;
      float* const panel = to + d / kPanel<P> * kValuePanelStride<P, Floats>;
      for (int64_t j = keys.begin; j < keys.end; ++j) {
        float* const row = panel + j * kPanel<P>;
        for (int64_t c = d % kPanel<P>, last = c + next - d; c < last; ++c)
          row[c] *= scale[j - keys.begin];
      }
    }
  }
}

/// `keys` of the block that begins at `start`.
template <class M, class P, class Tile>
TW_INLINE void copy_keys(P p, const Tile& tile, int64_t start, KeyRange keys) {
  const int64_t panel = keys.begin / kPanel<P>, dims = tile.shape.dims, depth = tile.depth();
  const int64_t first = start + panel * kPanel<P>, end = start + keys.end;
  auto* const to = tile.units(tile.at.keys) + panel * kPanel<P> * depth;
  pack_keys<M>(p, tile.k, first, end, dims, depth, to);
  if constexpr (tile::same_type<M, Floats>) {
    const int64_t parts = tile.scale_parts;
    if (tile.k_scale && !tile.scales_scores())
      scale_keys(p, tile.k_scale, first, end, dims / parts, parts, depth, to);
  }
  if (tile.k_pe)
    tile.k_pe.pack(p, first, end, tile.shape.rotated_dims, depth,
                   to + units_of<M>(dims) * kPanel<P>);
}
template <class M, class P, class Tile>
TW_INLINE void copy_values(P p, const Tile& tile, int64_t start, KeyRange keys) {
  const int64_t dims = tile.shape.value_dims;
  auto* const to = tile.units(tile.at.values);
  if constexpr (tile::same_type<M, Floats>) {
    pack_values(p, tile.v, start + keys.begin, start + keys.end, dims, keys.begin, to);
    const int64_t parts = tile.scale_parts;
    if (tile.v_scale && !tile.scales_weights())
      scale_values(p, tile.v_scale, start, keys, dims / parts, parts, to);
  } else {
    pack_value_pairs(p, tile.v, start, keys, dims, tile.at.acc_stride, kValuePanelStride<P, M>, to);
  }
}

}  // namespace tw::kernels::attention_detail

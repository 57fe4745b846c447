// Copies of queries, keys and values as attention's inner products want them: float32, in panels.
//
//   queries   [tile of kTileRows rows][d][row]     scaled
//   keys      [panel of kPanel keys][d][key]       zeros or other keys past the last one
//   values    [panel of kPanel columns][key][column], panels value_panel_stride apart; zeros past
//   Dv
#pragma once

#include "tilewright/kernels/attention_cpu.h"
#include "tilewright/tile/cpu/pack.h"

namespace tw::kernels::attention_detail {

/// A cache line more than a panel, so that a row of v goes to different sets.
template <class P>
inline constexpr int64_t kValuePanelStride = kKeyBlock * kPanel<P> + 16;

template <class P>
TW_INLINE constexpr int64_t value_panels(int64_t value_dims) {
  return (value_dims + kPanel<P> - 1) / kPanel<P>;
}

/// kTileRows rows of queries, times `scale`.
template <class P, class T>
TW_INLINE void pack_queries(P p, const tile::PackRows<P, T>& rows, int64_t dims, float scale,
                            float* to) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  float* const end = to + rows.count * dims;
  tile::pack_tight<tile::WidenedUnits<T>>(p, rows, 0, dims, to, end);
  for (; to + kN <= end; to += kN) tile::store(to, tile::load<V>(to) * scale);
  for (; to < end; ++to) *to *= scale;
}

/// Keys [first, end), first a multiple of kPanel, into panels from `to` on.
template <class P, class U>
__attribute__((noinline)) void pack_keys(P p, const KeySource<U>& k, int64_t first, int64_t end,
                                         int64_t dims, float* to) {
  constexpr int kN = P::template kLanes<float>;
  const U* keys[kN];
  int count = 0;       // of `keys`
  int64_t vector = 0;  // of keys: two to a panel
  const auto flush = [&] {
    const tile::PackRows<P, U> rows(count, k.dim_stride, 2 * kN * k.key_stride,
                                    [&](int i) { return keys[i]; });
    tile::pack_wide<tile::WidenedUnits<U>>(
        p, rows, 0, dims, to + vector / 2 * dims * kPanel<P> + vector % 2 * kN, kPanel<P>);
    count = 0;
    ++vector;
  };
  for_segments(k, first, end, kKeyBlock, [&](const KeySegment<U>& segment, int64_t) {
    const U* key = segment.data;
    for (int64_t i = 0; i < segment.count; ++i, key += segment.key_stride) {
      keys[count++] = key;
      if (count == kN) flush();
    }
  });
  if (count > 0) flush();
  if (vector % 2 == 1) {  // the panel's other half holds no key
    float* const at = to + vector / 2 * dims * kPanel<P> + kN;
    for (int64_t d = 0; d < dims; ++d)
      tile::store(at + d * kPanel<P>, tile::splat<typename P::f32>(0.0f));
  }
}

/// Values of keys [first, end) to rows offset, offset + 1, ... of all panels.
template <class P, class U>
__attribute__((noinline)) void pack_values(P, const KeySource<U>& v, int64_t first, int64_t end,
                                           int64_t value_dims, int64_t offset, float* to) {
  using V = typename P::f32;
  constexpr int kN = P::template kLanes<float>;
  for_segments(v, first, end, kKeyBlock, [&](const KeySegment<U>& segment, int64_t start) {
    const U* row = segment.data;
    float* out = to + (offset + start) * kPanel<P>;
    for (int64_t i = 0; i < segment.count; ++i, row += segment.key_stride, out += kPanel<P>) {
      float* at = out;
      int64_t d = 0;
      if (segment.dim_stride == 1) {
        for (; d + 2 * kN <= value_dims; d += 2 * kN, at += kValuePanelStride<P>) {
          tile::store(at, tile::load<V>(row + d));
          tile::store(at + kN, tile::load<V>(row + d + kN));
        }
      }
      for (; d < value_dims; d += 2 * kN, at += kValuePanelStride<P>) {
        const U* from = row + d * segment.dim_stride;
        for (int half = 0; half < 2; ++half, from += kN * segment.dim_stride) {
          const int64_t rest = value_dims - d - half * kN;
          const int count = rest < 0 ? 0 : rest < kN ? int(rest) : kN;
          tile::store(at + half * kN, tile::gather<V>(from, segment.dim_stride, count));
        }
      }
    }
  });
}

/// One number per key of [first, end), zeros for the rest of the block.
template <class P>
TW_INLINE void copy_scales(P, const KeySource<float>& scale, int64_t first, int64_t end,
                           float* to) {
  for_segments(scale, first, end, kKeyBlock, [&](const KeySegment<float>& segment, int64_t start) {
    for (int64_t i = 0; i < segment.count; ++i)
      to[start + i] = segment.data[i * segment.key_stride];
  });
  for (int64_t i = end - first; i < kKeyBlock; ++i) to[i] = 0;
}

}  // namespace tw::kernels::attention_detail

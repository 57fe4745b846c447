// Products of blocks that fit in the cache, inside one task: the pieces of gemm_cpu.h for kernels
// that multiply several such blocks in a row. Everything is packed to float32.
//
//   c[m, n] (+)= sum over k of a[m, k] * b[n, k]
//
// c lies in panels: [n / 32][m][32].
#pragma once

#include "tilewright/tile/cpu/mma.h"
#include "tilewright/tile/cpu/pack.h"

namespace tw::kernels::block_gemm {

inline constexpr int64_t kWidth = tile::kPanelWidth;

TW_INLINE constexpr int64_t panels(int64_t n) {
  return (n + kWidth - 1) / kWidth;
}

/// Rows of `depth` values each, anywhere in memory.
template <class T>
struct Block {
  const T* data;
  int64_t rows, depth, row_stride, depth_stride;
};

/// As the left operand: rows * depth floats, or as many units of another kind.
template <class Units, class P, class T>
__attribute__((noinline)) void pack_left(P p, const Block<T>& a, typename Units::Unit* to) {
  constexpr int64_t kRows = tile::kMaxTileRows<P>, kDepth = Units::kDepth;
  for (int64_t r = 0; r < a.rows; r += kRows) {
    const int64_t count = a.rows - r < kRows ? a.rows - r : kRows;
    const tile::PackRows<P, T> rows(count, a.depth_stride, 0,
                                    [&](int i) { return a.data + (r + i) * a.row_stride; });
    auto* const end = to + (a.depth + kDepth - 1) / kDepth * count;
    tile::pack_tight<Units>(p, rows, 0, a.depth, to, end);
    to = end;
  }
}

/// As the right operand: panels(rows) * 32 * depth floats, or units.
template <class Units, class P, class T>
__attribute__((noinline)) void pack_right(P p, const Block<T>& b, typename Units::Unit* to) {
  constexpr int64_t kDepth = Units::kDepth;
  constexpr int kLanes = P::template kLanes<float>;
  const int64_t units = (b.depth + kDepth - 1) / kDepth;
  for (int64_t column = 0; column < b.rows; column += kWidth, to += kWidth * units)
    for (int64_t lane = 0; lane < kWidth; lane += kLanes) {
      const int64_t from = column + lane;
      if (from >= b.rows) {
        for (int64_t u = 0; u < units; ++u)
          tile::store(to + u * kWidth + lane, typename P::template Vec<typename Units::Unit>{});
        continue;
      }
      const tile::PackRows<P, T> rows(b.rows - from, b.depth_stride, 0,
                                      [&](int i) { return b.data + (from + i) * b.row_stride; });
      tile::pack_wide<Units>(p, rows, 0, b.depth, to + lane, kWidth);
    }
}

/// Multiplies operands of so many units; the columns of c from n on are left as they are.
template <class Panel, class P>
__attribute__((noinline)) void multiply(P p, const typename Panel::Unit* a, int64_t m,
                                        const typename Panel::Unit* b, int64_t n, int64_t units,
                                        float* c, bool accumulate) {
  constexpr int64_t kRows = tile::kMaxTileRows<P>;
  for (int64_t j = 0; j < n; j += kWidth)
    for (int64_t r = 0; r < m; r += kRows) {
      const int count = static_cast<int>(m - r < kRows ? m - r : kRows);
      float* const tile = c + j * m + r * kWidth;
      tile::mma<Panel>(p, count, a + r * units,
                       reinterpret_cast<const typename Panel::Element*>(b + j * units),
                       Panel::kUnitDepth * units, tile, n - j < kWidth ? n - j : kWidth, accumulate,
                       reinterpret_cast<const char*>(tile));
    }
}

/// How a kernel multiplies its blocks: in float32, by pairs (block_gemm_bf16.h), or by tiles
/// (block_gemm_amx.h).
struct Floats {
  using Unit = float;
  using Value = float;  // of what a kernel computes and multiplies again
  struct Scope {};
  /// Rows that a product of m rows has in c.
  TW_INLINE static constexpr int64_t rows(int64_t m) { return m; }
  TW_INLINE static constexpr int64_t left_units(int64_t m, int64_t depth) { return m * depth; }
  TW_INLINE static constexpr int64_t right_units(int64_t n, int64_t depth) {
    return panels(n) * kWidth * depth;
  }
  template <class P, class T>
  TW_INLINE static void pack_left(P p, const Block<T>& a, float* to) {
    block_gemm::pack_left<tile::WidenedUnits<T>>(p, a, to);
  }
  template <class P, class T>
  TW_INLINE static void pack_right(P p, const Block<T>& b, float* to) {
    block_gemm::pack_right<tile::WidenedUnits<T>>(p, b, to);
  }
  template <class P>
  TW_INLINE static void multiply(P p, const float* a, int64_t m, const float* b, int64_t n,
                                 int64_t depth, float* c, bool accumulate) {
    block_gemm::multiply<tile::PlainPanel<float>>(p, a, m, b, n, depth, c, accumulate);
  }
};

}  // namespace tw::kernels::block_gemm

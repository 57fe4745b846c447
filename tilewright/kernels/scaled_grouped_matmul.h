// grouped_matmul of 8-bit operands with scales for blocks of them, float32 accumulation:
//
//   out[r, n] = sum over k of a[r, k] a_scale[r, k / block_k] b[g, n, k] b_scale[g, n / block_n, k
//   / block_k] for the rows r of group g; 0 for rows of none
//
// Scales as in DeepSeek-V3, arXiv:2412.19437, section 3.3. On a CPU a program has some rows of a
// group and a few panels of columns: operands become float32 in its caches, a stretch of k at a
// time. Elsewhere a program has one row.
#pragma once

#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/tile.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/block_gemm_cpu.h"
#endif

namespace tw::kernels {

template <class Q>
struct ScaledGroupedMatmul {
  static constexpr int kGpuRegisters = 128;
  static constexpr int64_t kRows = 48, kColumns = 128, kDepth = 256;  // of a program on a CPU

  View<const Q, 2> a;              // [m, k]
  View<const Q, 3> b;              // [groups, n, k]
  View<const float, 2> a_scale;    // [m, k / block_k], rounded up
  View<const float, 3> b_scale;    // [groups, n / block_n, k / block_k], rounded up
  View<const int32_t, 1> offsets;  // [groups], where each ends; or no data: one group of all rows
  int64_t block_n, block_k;
  View<float, 2> out;  // [m, n]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    const int64_t columns = out.size(1);
    if constexpr (P::kOnGpu) {
      return tile::plan_of(columns > 0 ? out.size(0) : 0).over(columns);
    } else {
      int64_t blocks = 0;
      for (int64_t g = 0; g <= groups(); ++g) blocks += row_blocks(g);
      const int64_t depth = kDepth < a.size(1) ? kDepth : a.size(1);
      const int64_t floats = 2 * (kRows + kPanel) * depth + kRows * kColumns;
      return tile::plan_of(blocks * column_blocks(), floats * int64_t{sizeof(float)});
    }
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      row(p, p.index());
    else
      block(p);
  }

  TW_INLINE RowGroups row_groups() const { return {offsets, {}}; }

 private:
  static constexpr int64_t kPanel = 32;  // block_gemm::kWidth

  TW_INLINE int64_t groups() const { return b.size(0); }
  /// The rows of group g; for g = groups(), those that belong to none.
  TW_INLINE int64_t begin(int64_t g) const {
    if (!offsets) return g == 0 ? 0 : a.size(0);
    return g == 0 ? 0 : offsets(g - 1);
  }
  TW_INLINE int64_t end(int64_t g) const {
    return g == groups() || !offsets ? a.size(0) : offsets(g);
  }
  TW_INLINE int64_t row_blocks(int64_t g) const { return (end(g) - begin(g) + kRows - 1) / kRows; }
  TW_INLINE int64_t column_blocks() const { return (out.size(1) + kColumns - 1) / kColumns; }

  template <class P>
  TW_INLINE void row(P p, int64_t r) const {
    using V = typename P::template Vec<float>;
    const int64_t g = offsets ? row_groups().group_of(r) : 0;
    const int64_t depth = g < groups() ? a.size(1) : 0;
    const View<float, 1> to = out[r];
    tile::for_row(p, to, [&](auto at) {
      V sum = tile::splat<V>(0.0f);
      for (int64_t first = 0; first < depth; first += block_k) {
        const int64_t last = first + block_k < depth ? first + block_k : depth;
        V part = tile::splat<V>(0.0f);
        for (int64_t k = first; k < last; ++k) TW_UNROLL
        for (int i = 0; i < decltype(at)::kLanes; ++i)
          if (i < at.count) part[i] += float(a(r, k)) * float(b(g, at.offset + i, k));
        TW_UNROLL
        for (int i = 0; i < decltype(at)::kLanes; ++i)
          if (i < at.count)
            sum[i] += part[i] * a_scale(r, first / block_k) *
                      b_scale(g, (at.offset + i) / block_n, first / block_k);
      }
      tile::store(p, to, at, sum);
    });
  }

#if !defined(__CUDACC__)
  /// count values of a row times their scale.
  template <class P>
  TW_INLINE static void widen(P p, const View<const Q, 1>& from, float scale, float* to) {
    tile::map_row(p, view(to, from.size(0)), [&](auto v) { return v * scale; }, from);
  }

  template <class P>
  TW_INLINE void block(P p) const {
    using V = typename P::template Vec<float>;
    int64_t g = 0, at = p.index() / column_blocks();
    for (; at >= row_blocks(g); ++g) at -= row_blocks(g);
    const int64_t first_row = begin(g) + at * kRows, rest = end(g) - first_row;
    const int64_t rows = rest < kRows ? rest : kRows;
    const int64_t first_column = p.index() % column_blocks() * kColumns;
    const int64_t left = out.size(1) - first_column, columns = left < kColumns ? left : kColumns;
    const int64_t all = g < groups() ? a.size(1) : 0,
                  depth = kDepth < a.size(1) ? kDepth : a.size(1);
    float* const wide = p.template scratch<float>();
    float* const a_packed = wide + (kRows + kPanel) * depth;
    float* const b_packed = a_packed + kRows * depth;
    float* const sums = b_packed + kPanel * depth;
    for (int64_t i = 0; i < kRows * kColumns; i += P::template kLanes<float>)
      tile::store(sums + i, V{});
    for (int64_t k = 0; k < all;) {
      const int64_t scale_block = k / block_k, stop = (scale_block + 1) * block_k;
      int64_t count = k + kDepth < stop ? kDepth : stop - k;
      count = k + count < all ? count : all - k;
      for (int64_t r = 0; r < rows; ++r)
        widen(p, a[first_row + r].part(k, count), a_scale(first_row + r, scale_block),
              wide + r * count);
      block_gemm::pack_left(p, block_gemm::Block<float>{wide, rows, count, count, 1}, a_packed);
      for (int64_t c = 0; c < columns; c += kPanel) {
        const int64_t width = columns - c < kPanel ? columns - c : kPanel;
        for (int64_t i = 0; i < width; ++i) {
          const int64_t n = first_column + c + i;
          widen(p, b[g][n].part(k, count), b_scale(g, n / block_n, scale_block), wide + i * count);
        }
        block_gemm::pack_right(p, block_gemm::Block<float>{wide, width, count, count, 1}, b_packed);
        block_gemm::multiply(p, a_packed, rows, b_packed, width, count, sums + c * rows, true);
      }
      k += count;
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; c += kPanel) {
        const int64_t width = columns - c < kPanel ? columns - c : kPanel;
        const View<float, 1> to = out[first_row + r].part(first_column + c, width);
        tile::map_row(p, to, [](auto v) { return v; }, view(sums + c * rows + r * kPanel, width));
      }
  }
#endif
};

}  // namespace tw::kernels

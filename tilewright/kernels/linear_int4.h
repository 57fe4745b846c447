// A linear layer whose weights are 4-bit numbers in groups with a scale and a zero point:
//
//   out[m, n] = sum over k of x[m, k] (weight[n, k] - zero[n, g]) scale[n, g] + bias[n],
//   g = k / group_size
//
// float32 accumulation; without zero points all are 8. On a CPU a program has some tokens and a few
// panels of features: weights become float32 in its caches, a stretch of k at a time. Elsewhere a
// program has one feature.
#pragma once

#include "tilewright/tile/tile.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/block_gemm_cpu.h"
#endif

namespace tw::kernels {

template <class T>
struct LinearInt4 {
  static constexpr int kGpuRegisters = 128;
  static constexpr int64_t kRows = 48, kColumns = 128, kDepth = 256;  // of a program on a CPU

  Rows<const T> x;               // [*, k]
  View<const int8_t, 2> weight;  // [n, k / 2], the low half first
  View<const T, 2> scale;        // [n, k / group_size], rounded up
  View<const int8_t, 2> zero;    // the same, or absent
  View<const T, 1> bias;         // [n], or absent
  int64_t group_size;
  Rows<T> out;  // [*, n]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if (out.rows == 0) return tile::plan_of(0);
    if constexpr (P::kOnGpu) {
      return tile::plan_of(out.cols).over(x.cols);
    } else {
      const int64_t depth = kDepth < x.cols ? kDepth : x.cols;
      const int64_t floats = (kRows + 2 * kPanel) * depth + kRows * kColumns;
      return tile::plan_of(blocks(out.rows, kRows) * blocks(out.cols, kColumns),
                           floats * int64_t{sizeof(float)});
    }
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (P::kOnGpu)
      feature(p, p.index());
    else
      block(p);
  }

 private:
  static constexpr int64_t kPanel = 32;  // block_gemm::kWidth

  TW_INLINE static int64_t blocks(int64_t n, int64_t step) { return (n + step - 1) / step; }
  TW_INLINE float zero_of(int64_t n, int64_t g) const {
    return zero ? static_cast<float>(zero(n, g)) : 8.0f;
  }

  template <class P>
  TW_INLINE void feature(P p, int64_t n) const {
    using V = typename P::template Vec<float>;
    for (int64_t m = 0; m < out.rows; ++m) {
      const View<const T, 1> row = x.row(m);
      float sum = tile::reduce_row(p, tile::Sum{}, row, [&](auto at) {
        V v = tile::splat<V>(0.0f);
        TW_UNROLL
        for (int i = 0; i < decltype(at)::kLanes; ++i) {
          if (i >= at.count) continue;
          const int64_t k = at.offset + i, g = index_quotient(k, group_size);
          const int byte = uint8_t(weight(n, k / 2));
          const int code = k % 2 == 0 ? byte & 15 : byte >> 4;
          v[i] = float(row(k)) * (float(code) - zero_of(n, g)) * float(scale(n, g));
        }
        return v;
      });
      if (bias) sum += float(bias(n));
      out(m, n) = T(sum);
    }
  }

#if !defined(__CUDACC__)
  /// `count` weights of a feature from `first` on, both even.
  TW_INLINE void widen(int64_t n, int64_t first, int64_t count, float* to) const {
    const int64_t step = weight.stride(1);
    const int8_t* const bytes = &weight(n, 0) + first / 2 * step;
    for (int64_t i = 0; i < count / 2; ++i) {
      const int byte = uint8_t(bytes[i * step]);
      to[2 * i] = float(byte & 15);
      to[2 * i + 1] = float(byte >> 4);
    }
    for (int64_t k = 0; k < count;) {
      const int64_t g = (first + k) / group_size, end = (g + 1) * group_size - first;
      const int64_t last = end < count ? end : count;
      const float base = zero_of(n, g), factor = float(scale(n, g));
      for (; k < last; ++k) to[k] = (to[k] - base) * factor;
    }
  }

  template <class P>
  TW_INLINE void block(P p) const {
    using V = typename P::template Vec<float>;
    const int64_t column_blocks = blocks(out.cols, kColumns);
    const int64_t first_row = p.index() / column_blocks * kRows, rest = out.rows - first_row;
    const int64_t rows = rest < kRows ? rest : kRows;
    const int64_t first_column = p.index() % column_blocks * kColumns;
    const int64_t left = out.cols - first_column, columns = left < kColumns ? left : kColumns;
    const int64_t all = x.cols, depth = kDepth < all ? kDepth : all;
    float* const wide = p.template scratch<float>();
    float* const left_packed = wide + kPanel * depth;
    float* const right_packed = left_packed + kRows * depth;
    float* const sums = right_packed + kPanel * depth;
    for (int64_t i = 0; i < kRows * kColumns; i += P::template kLanes<float>)
      tile::store(sums + i, V{});
    for (int64_t k = 0; k < all; k += depth) {
      const int64_t count = k + depth < all ? depth : all - k;
      pack_tokens(p, first_row, rows, k, count, left_packed);
      for (int64_t c = 0; c < columns; c += kPanel) {
        const int64_t width = columns - c < kPanel ? columns - c : kPanel;
        for (int64_t i = 0; i < width; ++i) widen(first_column + c + i, k, count, wide + i * count);
        block_gemm::pack_right(p, block_gemm::Block<float>{wide, width, count, count, 1},
                               right_packed);
        block_gemm::multiply(p, left_packed, rows, right_packed, width, count, sums + c * rows,
                             true);
      }
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; c += kPanel) {
        const int64_t width = columns - c < kPanel ? columns - c : kPanel;
        const View<T, 1> to = out.row(first_row + r).part(first_column + c, width);
        const View<float, 1> from = view(sums + c * rows + r * kPanel, width);
        if (bias)
          tile::map_row(
              p, to, [](auto a, auto b) { return a + b; }, from,
              bias.part(first_column + c, width));
        else
          tile::map_row(p, to, [](auto v) { return v; }, from);
      }
  }
  template <class P>
  TW_INLINE void pack_tokens(P p, int64_t first_row, int64_t rows, int64_t k, int64_t count,
                             float* to) const {
    constexpr int64_t kTile = tile::kMaxTileRows<P>;
    for (int64_t r = 0; r < rows; r += kTile) {
      const int64_t height = rows - r < kTile ? rows - r : kTile;
      const tile::PackRows<P, T> from(height, x.col_stride, 0,
                                      [&](int i) { return x.row(first_row + r + i).data; });
      float* const end = to + count * height;
      tile::pack_tight<tile::WidenedUnits<T>>(p, from, k, count, to, end);
      to = end;
    }
  }
#endif
};

}  // namespace tw::kernels

// What grouped products of 8-bit operands with scales for blocks of them have in common: float32
// sums
//
//   sum[r, n] = sum over k of a[q, k] a_scale[q, k / block_k] b[g, n, k] b_scale[g, n / block_n, k
//   / block_k] for the rows r of group g, where q is r or the number given for it; 0 for rows of
//   none
//
// and what becomes of them: gated, activated and multiplied by those N columns further on; times
// the weight of their row of out, which is r or the number given for it, or none.
//
// Scales as in DeepSeek-V3, arXiv:2412.19437, section 3.3. On a CPU a program has some rows of a
// group and a few panels of columns: operands become float32 in its caches, a stretch of k at a
// time. Elsewhere a program has one row.
#pragma once

#include "tilewright/kernels/gated_activation.h"
#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/tile.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/block_gemm_cpu.h"
#endif

namespace tw::kernels {

template <class Q, class Out, bool kGated>
struct ScaledProduct {
  static constexpr int64_t kRows = 48, kColumns = 128, kDepth = 256;  // of a program on a CPU
  static constexpr int kHalves = kGated ? 2 : 1;                      // of the columns of b
  static constexpr int64_t kOutColumns = kColumns / kHalves;

  View<const Q, 2> a;            // [*, k]
  View<const Q, 3> b;            // [groups, kHalves n, k]
  View<const float, 2> a_scale;  // [*, k / block_k], rounded up
  View<const float, 3> b_scale;  // [groups, kHalves n / block_n, k / block_k], rounded up
  RowGroups groups;              // no data: one group of all rows, or none
  View<const int32_t, 1> rows;   // [m], of a, or no data: each row its own
  int64_t block_n, block_k;
  View<Out, 2> out;  // [*, n]
  ScatteredRows scattered;
  int activation = 0;  // a GatedActivation, if gated

  template <tile::Program P>
  TW_DEVICE tile::Plan plan() const {
    const int64_t columns = out.size(1);
    if constexpr (P::kOnGpu) {
      return tile::plan_of(columns > 0 ? row_count() : 0).over(columns);
    } else {
      int64_t blocks = 0;
      for (int64_t s = 0; s <= 2 * count(); ++s) blocks += row_blocks(s);
      const int64_t depth = kDepth < a.size(1) ? kDepth : a.size(1);
      const int64_t floats = 2 * (kRows + kPanel) * depth + kRows * kColumns;
      return tile::plan_of(blocks * column_blocks(), floats * int64_t{sizeof(float)});
    }
  }

  template <tile::Program P>
  TW_DEVICE void run(P p) const {
    if constexpr (P::kOnGpu)
      row(p, p.index());
    else
      block(p);
  }

 private:
  static constexpr int64_t kPanel = 32;  // block_gemm::kWidth

  TW_INLINE int64_t count() const { return b.size(0); }
  TW_INLINE int64_t row_count() const { return scattered.count; }
  TW_INLINE int64_t source(int64_t r) const { return rows ? rows(r) : r; }
  /// The row of out, or -1.
  TW_INLINE int64_t destination(int64_t r) const { return scattered.destination(r, out.size(0)); }

  template <class V, class P, class At>
  TW_INLINE V product(P, At at, int64_t q, int64_t g, int64_t first_column, int64_t depth) const {
    const int64_t column = first_column + at.offset;
    V sum = tile::splat<V>(0.0f);
    for (int64_t first = 0; first < depth; first += block_k) {
      const int64_t last = first + block_k < depth ? first + block_k : depth;
      V part = tile::splat<V>(0.0f);
      for (int64_t k = first; k < last; ++k) TW_UNROLL
      for (int i = 0; i < At::kLanes; ++i)
        if (i < at.count) part[i] += float(a(q, k)) * float(b(g, column + i, k));
      TW_UNROLL
      for (int i = 0; i < At::kLanes; ++i)
        if (i < at.count)
          sum[i] += part[i] * a_scale(q, first / block_k) *
                    b_scale(g, (column + i) / block_n, first / block_k);
    }
    return sum;
  }
  template <class P>
  TW_INLINE void row(P p, int64_t r) const {
    using V = typename P::template Vec<float>;
    const int64_t g = groups.ends ? groups.group_of(r) : 0, d = destination(r);
    if (d < 0) return;
    const bool is_of_group = g < count();
    const int64_t depth = is_of_group ? a.size(1) : 0, q = is_of_group ? source(r) : 0;
    const float w = is_of_group ? scattered.weight(d) : 1.0f;
    const View<Out, 1> to = out[d];
    tile::for_row(p, to, [&](auto at) {
      V sum = product<V>(p, at, q, g, 0, depth);
      if constexpr (kGated) {
        const V up = product<V>(p, at, q, g, out.size(1), depth);
        with_activation(GatedActivation(activation), [&](auto f) { sum = f(sum) * up; });
      }
      tile::store(p, to, at, sum * tile::splat<V>(w));
    });
  }

#if !defined(__CUDACC__)
  /// Rows in a row: those of group s / 2, for even s the ones in front of it that belong to none.
  TW_INLINE RowGroups::Stretch stretch(int64_t s) const {
    return s % 2 == 0 ? groups.gap(s / 2, count(), row_count()) : groups.group(s / 2, row_count());
  }
  TW_INLINE int64_t row_blocks(int64_t s) const {
    const RowGroups::Stretch of = stretch(s);
    return (of.end - of.begin + kRows - 1) / kRows;
  }
  TW_INLINE int64_t column_blocks() const { return (out.size(1) + kOutColumns - 1) / kOutColumns; }

  /// count values of a row times their scale.
  template <class P>
  TW_INLINE static void widen(P p, const View<const Q, 1>& from, float scale, float* to) {
    tile::map_row(p, view(to, from.size(0)), [&](auto v) { return v * scale; }, from);
  }

  /// What a program has of out; its sums are panels of kPanel columns, those of all rows together,
  /// gated the gate's before the others.
  struct Block {
    int64_t group, row, rows, column, columns;
    bool is_of_group;
  };
  TW_INLINE Block block_at(int64_t index) const {
    int64_t s = 0, at = index / column_blocks();
    for (; at >= row_blocks(s); ++s) at -= row_blocks(s);
    const RowGroups::Stretch of = stretch(s);
    const int64_t row = of.begin + at * kRows, rest = of.end - row;
    const int64_t column = index % column_blocks() * kOutColumns, left = out.size(1) - column;
    return {s / 2,
            row,
            rest < kRows ? rest : kRows,
            column,
            left < kOutColumns ? left : kOutColumns,
            s % 2 == 1};
  }

  template <class P>
  TW_INLINE void block(P p) const {
    using V = typename P::template Vec<float>;
    const Block at = block_at(p.index());
    const int64_t all = at.is_of_group ? a.size(1) : 0,
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
      for (int64_t r = 0; r < at.rows; ++r) {
        const int64_t q = source(at.row + r);
        widen(p, a[q].part(k, count), a_scale(q, scale_block), wide + r * count);
      }
      block_gemm::Floats::pack_left(p, block_gemm::Block<float>{wide, at.rows, count, count, 1},
                                    a_packed);
      for (int half = 0; half < kHalves; ++half)
        for (int64_t c = 0; c < at.columns; c += kPanel) {
          const int64_t width = at.columns - c < kPanel ? at.columns - c : kPanel;
          for (int64_t i = 0; i < width; ++i) {
            const int64_t n = half * out.size(1) + at.column + c + i;
            widen(p, b[at.group][n].part(k, count), b_scale(at.group, n / block_n, scale_block),
                  wide + i * count);
          }
          block_gemm::Floats::pack_right(p, block_gemm::Block<float>{wide, width, count, count, 1},
                                         b_packed);
          block_gemm::Floats::multiply(p, a_packed, at.rows, b_packed, width, count,
                                       sums + (half * kOutColumns + c) * at.rows, true);
        }
      k += count;
    }
    finish(p, at, sums);
  }

  template <class P>
  TW_INLINE void finish(P p, const Block& at, const float* sums) const {
    for (int64_t r = 0; r < at.rows; ++r) {
      const int64_t d = destination(at.row + r);
      if (d < 0) continue;
      const float w = at.is_of_group ? scattered.weight(d) : 1.0f;
      for (int64_t c = 0; c < at.columns; c += kPanel) {
        const int64_t width = at.columns - c < kPanel ? at.columns - c : kPanel;
        const View<Out, 1> to = out[d].part(at.column + c, width);
        const auto sum = view(sums + c * at.rows + r * kPanel, width);
        if constexpr (kGated) {
          const auto up = view(sums + (kOutColumns + c) * at.rows + r * kPanel, width);
          with_activation(GatedActivation(activation), [&](auto f) {
            tile::map_row(p, to, [&](auto x, auto y) { return f(x) * y * w; }, sum, up);
          });
        } else {
          tile::map_row(p, to, [&](auto v) { return v * w; }, sum);
        }
      }
    }
  }
#endif
};

/// The kernel of a call whose product() is one. The call is a base: its fields are the arguments.
template <class Call>
struct ScaledProductKernel : Call {
  static constexpr int kGpuRegisters = 128;

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return this->product().template plan<P>();
  }
  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    this->product().run(p);
  }
};

}  // namespace tw::kernels

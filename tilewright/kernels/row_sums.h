// Sums over rows, as gradients of weights are: the same bits for any number of threads. Rows are
// cut into blocks by their number alone; each block adds its rows to a float32 row of its own in
// the workspace, and the blocks are added up in order.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Two sums over the columns of a row in one pass.
struct RowPair {
  float first, second;
};
template <class V>
struct Two {
  V first, second;
};
template <class V>
TW_INLINE Two<V> two_of(V first, V second) {
  return {first, second};
}
/// The sums of both members of f(span). The order of operations depends on n alone.
template <class P, class F>
TW_INLINE RowPair row_sums(P p, int64_t n, F&& f) {
#if defined(__CUDACC__)
  return {tile::reduce_row(p, tile::Sum{}, n, [&](auto at) { return f(at).first; }),
          tile::reduce_row(p, tile::Sum{}, n, [&](auto at) { return f(at).second; })};
#else
  using V = typename P::template Vec<float>;
  constexpr int64_t kBlock = 4096;  // summed by itself, so that the error hardly grows with n
  Two<V> total{};
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    Two<V> sum{};
    const int64_t rest = n - begin;
    tile::for_row(p, rest < kBlock ? rest : kBlock, [&](auto at) {
      at.offset += begin;
      const auto two = f(at);
      sum.first += tile::masked(at, two.first, 0.0f);
      sum.second += tile::masked(at, two.second, 0.0f);
    });
    total.first += sum.first;
    total.second += sum.second;
  }
  const auto add = [](float a, float b) { return a + b; };
  return {tile::fold_lanes(total.first, add), tile::fold_lanes(total.second, add)};
#endif
}

struct RowSums {
  static constexpr int64_t kMaxBlocks = 128, kMinRows = 8, kColumns = 512;
  int64_t rows, cols;
  int count;  // of different sums, each with `cols` columns

  TW_INLINE int64_t rows_per_block() const {
    const int64_t even = (rows + kMaxBlocks - 1) / kMaxBlocks;
    return even < kMinRows ? kMinRows : even;
  }
  TW_INLINE int64_t blocks() const { return (rows + rows_per_block() - 1) / rows_per_block(); }
  TW_INLINE int64_t first_row(int64_t block) const { return block * rows_per_block(); }
  TW_INLINE int64_t end_row(int64_t block) const {
    const int64_t end = first_row(block + 1);
    return end < rows ? end : rows;
  }

  /// Two phases: blocks() programs that call partial() and add, then programs that call fold().
  TW_INLINE tile::Plan plan() const {
    tile::Plan plan;
    plan.grid[0] = blocks();
    if (count == 0) return plan;
    plan.phases = 2;
    plan.grid[1] = (cols + kColumns - 1) / kColumns;
    plan.workspace_bytes = blocks() * count * cols * int64_t{sizeof(float)};
    return plan;
  }

  /// The block's own row of sum `which`; no row where nothing is summed.
  template <class P>
  TW_INLINE View<float, 1> partial(P p, int64_t block, int which) const {
    if (count == 0) return {nullptr, {cols}, {1}};
    return {p.template workspace<float>() + (block * count + which) * cols, {cols}, {1}};
  }
  template <class P>
  TW_INLINE void clear(P p, int64_t block) const {
    const View<float, 1> all{partial(p, block, 0).data, {count * cols}, {1}};
    using V = typename P::template Vec<float>;
    tile::for_row(p, all.size(0), [&](auto at) { tile::store_cached(all, at, V{}); });
  }

  /// Adds up sum `which` for the columns of this program.
  template <class P, class T>
  TW_INLINE void fold(P p, int which, const View<T, 1>& out) const {
    const int64_t begin = p.index() * kColumns, rest = cols - begin;
    const int64_t n = rest < kColumns ? rest : kColumns;
    const auto part = [&](auto row) {
      row.data += begin * row.stride(0);
      row.sizes[0] = n;
      return row;
    };
    const auto to = part(out);
    tile::for_row(p, n, [&](auto at) {
      typename P::template Vec<float> total{};
      for (int64_t b = 0; b < blocks(); ++b) total += tile::load(part(partial(p, b, which)), at);
      tile::store_cached(to, at, total);
    });
  }
};

}  // namespace tw::kernels

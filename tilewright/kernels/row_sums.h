// Sums over rows, as gradients of weights are: the same bits for any number of threads. Rows are
// cut into blocks by their number alone; each block adds its rows to a float32 row of its own, and
// the blocks are added up in order.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

template <class P>
struct RowSums {
  static constexpr int64_t kMaxBlocks = P::kOnGpu ? 528 : 128, kMinRows = 8;
  /// On a GPU where sums are far from it, as few blocks as fill it, so that their sums stay in L2.
  static constexpr int64_t kMaxFarBlocks = P::kOnGpu ? 132 : kMaxBlocks;
  /// Blocks that are added up by one program, then the groups of them: a GPU has threads for that.
  static constexpr int64_t kGroup = P::kOnGpu ? 24 : kMaxBlocks;
  int64_t rows, cols;
  int count;  // of different sums, each with `cols` columns

  TW_INLINE int64_t rows_per_block() const {
    const int64_t most = is_near() ? kMaxBlocks : kMaxFarBlocks, even = (rows + most - 1) / most;
    return even < kMinRows ? kMinRows : even;
  }
  TW_INLINE int64_t blocks() const { return (rows + rows_per_block() - 1) / rows_per_block(); }
  TW_INLINE int64_t first_row(int64_t block) const { return block * rows_per_block(); }
  TW_INLINE int64_t end_row(int64_t block) const {
    const int64_t end = first_row(block + 1);
    return end < rows ? end : rows;
  }

  /// Phase 0: blocks() programs that begin(), add to sum() and end(). Then, if anything is summed,
  /// programs that fold().
  TW_INLINE tile::Plan plan() const {
    tile::Plan plan = tile::Plan{}.over(cols);
    plan.grid[0] = blocks();
    if (count == 0) return plan;
    plan.phases = groups() > 1 ? 3 : 2;
    plan.grid[1] = groups() * column_blocks();
    if (groups() > 1) plan.grid[2] = column_blocks();
    plan.workspace_bytes = blocks() * count * cols * int64_t{sizeof(float)};
    if (is_near()) plan.scratch_bytes = count * cols * int64_t{sizeof(float)};
    return plan;
  }
  /// The block's own row of sum `which`; no row where nothing is summed.
  TW_INLINE View<float, 1> sum(P p, int which) const {
    if (count == 0) return {nullptr, {cols}, {1}};
    if (is_near()) return {p.template scratch<float>() + which * cols, {cols}, {1}};
    return partial(p, p.index(), which);
  }
  TW_INLINE void begin(P p) const {
    using V = typename P::template Vec<float>;
    for (int i = 0; i < count; ++i) {
      const View<float, 1> row = sum(p, i);
      tile::for_row(p, row, [&](auto at) { tile::store_cached(row, at, V{}); });
    }
  }
  TW_INLINE void end(P p) const {
    if (!is_near()) return;
    for (int i = 0; i < count; ++i)
      tile::map_row(
          p, partial(p, p.index(), i), [](auto v) { return v; },
          View<const float, 1>{sum(p, i).data, {cols}, {1}});
  }

  /// Adds up sum `which` for the columns of this program; out receives the whole sum.
  template <class T>
  TW_INLINE void fold(P p, int which, const View<T, 1>& out) const {
    const int64_t group = index_quotient(p.index(), column_blocks());
    const int64_t begin = (p.index() - group * column_blocks()) * columns(), rest = cols - begin;
    const int64_t n = rest < columns() ? rest : columns();
    const bool is_last = p.phase() == 2 || groups() == 1;
    const int64_t step = p.phase() == 2 ? kGroup : 1, first = group * kGroup;
    const int64_t end = p.phase() == 1 && first + kGroup < blocks() ? first + kGroup : blocks();
    tile::for_row(p, n, [&](auto at) {
      typename P::template Vec<float> total{};
      TW_UNROLL_LOADS
      for (int64_t b = first; b < end; b += step)
        total += tile::load(partial(p, b, which).part(begin, n), at);
      if (is_last)
        tile::store_cached(out.part(begin, n), at, total);
      else
        tile::store_cached(partial(p, first, which).part(begin, n), at, total);
    });
  }

 private:
  /// Of blocks that are folded; one of no blocks, which gives zeros.
  TW_INLINE int64_t groups() const {
    return blocks() > kGroup ? (blocks() + kGroup - 1) / kGroup : 1;
  }
  /// That a program folds: on a GPU a span for each of the threads that it has for a row.
  TW_INLINE int64_t columns() const {
    constexpr int64_t kLeast = P::kOnGpu ? 64 : 512, kMost = P::kOnGpu ? 4096 : 512;
    const int64_t quarter = (cols / 4 + kLeast - 1) / kLeast * kLeast;
    return quarter < kLeast ? kLeast : quarter < kMost ? quarter : kMost;
  }
  TW_INLINE int64_t column_blocks() const { return (cols + columns() - 1) / columns(); }
  /// Where sums are kept: on a GPU in shared memory, if two blocks of a multiprocessor have room
  /// there; else in the workspace, which on a CPU is in cache.
  TW_INLINE bool is_near() const {
    return count * cols * int64_t{sizeof(float)} <= P::kSharedBytes;
  }
  TW_INLINE View<float, 1> partial(P p, int64_t block, int which) const {
    return {p.template workspace<float>() + (block * count + which) * cols, {cols}, {1}};
  }
};

}  // namespace tw::kernels

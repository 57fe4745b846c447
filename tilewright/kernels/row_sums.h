// Sums over rows, as gradients of weights are: the same bits for any number of threads. Rows are
// cut into blocks by their number alone; each block adds its rows to a float32 row of its own, and
// the blocks are added up in order.
#pragma once

#include "tilewright/tile/sums.h"

namespace tw::kernels {

template <class P>
struct RowSums {
  static constexpr int64_t kMaxBlocks = P::kOnGpu ? 16384 : 128, kMinRows = P::kOnGpu ? 2 : 8;
  static constexpr int kAhead = P::kOnGpu ? 8 : 4;  // loads before the first is used
  int64_t rows, cols;
  int count;  // of different sums, each with `cols` columns

  TW_INLINE int64_t rows_per_block() const {
    int64_t most = kMaxBlocks;
    if constexpr (P::kOnGpu) most = P::programs_at_once(cols, most);  // their sums stay in L2
    const int64_t even = (rows + most - 1) / most;
    return even < kMinRows ? kMinRows : even;
  }
  TW_INLINE int64_t blocks() const { return (rows + rows_per_block() - 1) / rows_per_block(); }
  TW_INLINE int64_t first_row(int64_t block) const { return block * rows_per_block(); }
  TW_INLINE int64_t end_row(int64_t block) const {
    const int64_t end = first_row(block + 1);
    return end < rows ? end : rows;
  }

  /// Phase 0: blocks() programs, each with its sums. Then, if anything is summed, programs that
  /// fold().
  TW_INLINE tile::Plan plan() const {
    tile::Plan plan = tile::Plan{}.over(cols);
    plan.grid[0] = blocks();
    if (count == 0) return plan;
    plan.phases = 1 + folds();
    for (int round = 1; round <= folds(); ++round)
      plan.grid[round] = count * groups(round) * column_blocks();
    plan.workspace_bytes = blocks() * count * pitch() * int64_t{sizeof(float)};
    return plan;
  }
  /// Where the block's sum `which` goes, for tile::hold_sums; nowhere if nothing is summed.
  TW_INLINE View<float, 1> sum(P p, int which) const {
    if (count == 0) return {nullptr, {cols}, {1}};
    return partial(p, p.index(), which);
  }

  /// Adds up the columns of this program's sum; outs, `count` of them, receive the whole sums.
  template <class T>
  TW_INLINE void fold(P p, const View<T, 1> (&outs)[2]) const {
    const int64_t share = groups(p.phase()) * column_blocks();
    const int which = p.index() < share ? 0 : 1;
    const int64_t index = p.index() - which * share;
    const int64_t group = index_quotient(index, column_blocks());
    const int64_t begin = (index - group * column_blocks()) * columns(), rest = cols - begin;
    const int64_t n = rest < columns() ? rest : columns();
    const int64_t step = grouped(group_size(), p.phase() - 1), size = step * group_size();
    const int64_t first = group * size, end = first + size < blocks() ? first + size : blocks();
    const auto add_up = [&](const auto& from, const auto& to) {
      tile::for_row(p, to, [&](auto at) {
        using V = typename P::template Vec<float>;
        const auto block = [&](int64_t b) {
          return V(tile::load(from.part((b - first) * count * pitch(), n), at));
        };
        V total{};
        for (int64_t b = first; b < end; b += kAhead * step) {
          V ahead[kAhead] = {};
          TW_UNROLL
          for (int i = 0; i < kAhead; ++i)
            if (b + i * step < end) ahead[i] = block(b + i * step);
          TW_UNROLL
          for (int i = 0; i < kAhead; ++i) total += ahead[i];
        }
        tile::store_cached(to, at, total);
      });
    };
    const View<float, 1> from = partial(p, first, which).part(begin, n);
    if (p.phase() == folds())
      tile::with_rows(p, add_up, from, outs[which].part(begin, n));
    else
      tile::with_rows(p, add_up, from, from);
  }

 private:
  /// Blocks that one program adds up, then groups of them, and so on: on a GPU, which has threads
  /// for that, so many that folds() rounds leave one.
  TW_INLINE int64_t group_size() const {
    if constexpr (!P::kOnGpu) return kMaxBlocks;
    int64_t size = kAhead;
    while (grouped(size, folds()) < blocks()) size += kAhead;
    return size;
  }
  TW_INLINE int folds() const {
    return !P::kOnGpu || blocks() <= 2 * kAhead ? 1 : blocks() <= 1024 ? 2 : 3;
  }
  /// Blocks of a group after so many rounds.
  TW_INLINE static int64_t grouped(int64_t size, int round) {
    int64_t all = 1;
    for (int i = 0; i < round; ++i) all *= size;
    return all;
  }
  /// Of blocks that a round leaves; one of no blocks, which gives zeros.
  TW_INLINE int64_t groups(int round) const {
    const int64_t all = blocks(), size = grouped(group_size(), round);
    return all > size ? (all + size - 1) / size : 1;
  }
  /// That a program folds: on a GPU a span for each of the threads that it has for a row.
  TW_INLINE int64_t columns() const {
    if constexpr (P::kOnGpu) {
      constexpr int64_t kLeast = 64;
      const int64_t part = (cols / P::kSpans + kLeast - 1) / kLeast * kLeast;
      return part < kLeast ? kLeast : part;
    } else {
      return 512;
    }
  }
  TW_INLINE int64_t column_blocks() const { return (cols + columns() - 1) / columns(); }
  /// From a block's sum to the next, floats: all of them begin a word that is loaded at once.
  TW_INLINE int64_t pitch() const { return (cols + 15) / 16 * 16; }
  TW_INLINE View<float, 1> partial(P p, int64_t block, int which) const {
    return {p.template workspace<float>() + (block * count + which) * pitch(), {cols}, {1}};
  }
};

}  // namespace tw::kernels

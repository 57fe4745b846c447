// The skeleton of operators that must have read a whole row before they can write it: the statistic
// of a row, then its output.
//
// A row that is first read and then written leaves the memory's write path idle for one half of the
// time and its read path for the other. So the output of a row is written in the loop that reads
// the next one; or, where rows are too long for the nearest cache to hold all that such a loop
// reads, in a loop that begins to fetch the next one. Rows of a program's group; the order of
// operations within a row depends on its length alone. On a GPU other blocks fill the gaps.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// For every row of the group: row = open(i), what for_row walks, as keep_row or new_row gives it;
/// the statistic is the reduction of read(i, row)(span) over its columns; then
/// write(i, row, statistic)(span) for every span. kChains: see tile::for_row; the functions of a
/// span should be TW_INLINED then.
template <class C = float, int kChains = 1, class P, tile::Reduction R, class Open, class Read,
          class Write>
TW_INLINE void rows_in_turn(P p, R reduction, tile::RowGroup group, Open&& open, Read&& read,
                            Write&& write) {
  for (int64_t i = group.first; i < group.last; ++i) {
    auto row = open(i);
    const auto get = read(i, row);
    const auto found = tile::reduce_row<C, kChains>(p, reduction, row, [&](auto at) TW_INLINED {
      if constexpr (kChains > 1) tile::prefetch_ahead(p, row, at);
      return get(at);
    });
    const auto put = write(i, row, found);
    if constexpr (P::kOnGpu) {
      tile::for_row<C, kChains>(p, row, put);
    } else {
      const auto next = open(i + 1 < group.last ? i + 1 : i);
      tile::for_row<C, kChains>(p, row, [&](auto at) TW_INLINED {
        tile::prefetch(p, next, at);
        put(at);
      });
    }
  }
}

/// Whether rows are in memory and so long that two that are read, the one that is written and a
/// weight fill the nearest cache: the next one is better fetched while this one is written.
template <class T, class P>
TW_INLINE bool outgrows_nearest_cache(P p, int64_t cols) {
  if constexpr (P::kOnGpu)
    return false;
  else
    return p.streaming() && 4 * cols * int64_t{sizeof(T)} >= p.machine().l1d_bytes;
}

/// The same as rows_in_turn, but write may only write what no later row reads.
template <class C = float, int kChains = 1, class P, tile::Reduction R, class Open, class Read,
          class Write>
TW_INLINE void pipeline_rows(P p, R reduction, tile::RowGroup group, Open&& open, Read&& read,
                             Write&& write) {
  if (group.first >= group.last) return;
  constexpr bool kLoose = requires { decltype(open(0))::kLoose; };  // slow anyway; spares a loop
  if constexpr (P::kOnGpu || kLoose) {
    rows_in_turn<C, kChains>(p, reduction, group, open, read, write);
  } else {
    auto row = open(group.first);
    auto statistic = tile::reduce_row<C, kChains>(p, reduction, row, read(group.first, row));
    for (int64_t i = group.first; i + 1 < group.last; ++i) {
      auto next = open(i + 1);
      const auto put = write(i, row, statistic);
      const auto get = read(i + 1, next);
      statistic = tile::reduce_row<C, kChains>(p, reduction, next, [&](auto at) TW_INLINED {
        const auto value = get(at);  // first: it may have to wait for memory
        put(at);
        return value;
      });
      row = next;
    }
    tile::for_row<C, kChains>(p, row, write(group.last - 1, row, statistic));
  }
}

}  // namespace tw::kernels

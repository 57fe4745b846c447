// The skeleton of operators that must have read a whole row before they can write it: the statistic
// of a row, then its output.
//
// A row that is first read and then written leaves the memory's write path idle for one half of the
// time and its read path for the other. So the output of a row is written in the loop that reads
// the next one. Rows of a program's group; the order of operations within a row depends on its
// length alone. On a GPU other blocks fill the gaps.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// For every row of the group: row = open(i), what for_row walks, as keep_row or new_row gives it;
/// the statistic is the reduction of read(i, row)(span) over its columns; then
/// write(i, row, statistic)(span) for every span. write may write what no later row reads. kChains:
/// see tile::for_row; the functions of a span should be TW_INLINED then.
template <class C = float, int kChains = 1, class P, class R, class Open, class Read, class Write>
TW_INLINE void pipeline_rows(P p, R reduction, tile::RowGroup group, Open&& open, Read&& read,
                             Write&& write) {
  if (group.first >= group.last) return;
  if constexpr (P::kOnGpu) {
    for (int64_t i = group.first; i < group.last; ++i) {
      auto row = open(i);
      const auto found = tile::reduce_row<C>(p, reduction, row, read(i, row));
      tile::for_row<C>(p, row, write(i, row, found));
    }
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

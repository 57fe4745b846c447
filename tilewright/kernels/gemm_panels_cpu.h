// Where gemm_cpu.h finds b, row n of which holds the coefficients of output column n. Panels tell
//
//     Element               type of a's elements
//     Value                 type of b's, which need not be that of memory
//     kPacked               whether b was packed beforehand (kernels/panel_layout.h)
//
// and those that were not, where a panel begins with column `column`:
//
//     across()              whether b's columns lie side by side
//     kRowsAtOnce<P>        most rows of a that multiply b as it lies, if it is not across()
//     pack<Units>()         packs k values of a panel from `first` on; those `ahead` of them are
//                           wanted next or, where that is 0, those of the next panel; across(), the
//                           next values of k
//     multiply<Units>()     a tile of few packed rows of a and all k
//     side_by_side(), multiply_across<Units>()   across() and each row dense: the same for many
//                           columns
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/cpu/mma_int8.h"
#include "tilewright/tile/cpu/mma_rows.h"
#include "tilewright/tile/cpu/pack.h"

namespace tw::kernels {

/// b packed beforehand.
template <class T>
struct ReadyPanels {
  using Element = T;
  using Value = T;
  static constexpr bool kPacked = true;
  const T* data;
  int64_t stride;  // elements from one panel to the next
};

/// Tiles of few packed rows of a, one after the other, and columns of b that lie side by side, in
/// rows `pitch` elements apart: a few rows of b at a time, each from the first column to the last.
template <class Units, class P, class T>
__attribute__((noinline)) void mma_columns(P p, int rows_of_a, const typename Units::Unit* a,
                                           const T* b, int64_t pitch, int64_t columns, int64_t k,
                                           tile::sum_t<Units>* tiles) {
  constexpr int64_t kStep = 16;
  int64_t first = 0;
  do {
    const int64_t step = k - first < kStep ? k - first : kStep;
    for (int64_t j = 0; j < columns; j += tile::kPanelWidth)
      tile::mma_across<Units, kStep>(p, rows_of_a, a + first / Units::kDepth * rows_of_a,
                                     b + first * pitch + j, pitch, step, tiles + j * rows_of_a,
                                     columns - j, first > 0);
    first += step;
  } while (first < k);
}

/// b as it is. RowsOfB: Rows, or what has the same members.
template <class T, class RowsOfB = Rows<const T>>
struct StridedPanels {
  using Element = T;
  using Value = T;
  static constexpr bool kPacked = false;
  template <class P>
  static constexpr int64_t kRowsAtOnce = tile::kMaxTileRows<P>;

  RowsOfB rows;

  TW_INLINE bool across() const { return rows.col_stride != 1; }
  TW_INLINE bool side_by_side() const {
    return across() && rows.lead == 1 && rows.lead_strides[0] == 1;
  }

  /// Tiles of few packed rows of a, one after the other.
  template <class Units, class P>
  TW_INLINE void multiply_across(P p, int rows_of_a, const typename Units::Unit* a, int64_t column,
                                 int64_t columns, int64_t k, tile::sum_t<Units>* tiles) const {
    mma_columns<Units>(p, rows_of_a, a, rows.row(column).data, rows.col_stride, columns, k, tiles);
  }

  template <class Units, class P>
  __attribute__((noinline)) void pack(P p, int64_t column, int64_t first, int64_t k, int64_t ahead,
                                      typename Units::Unit* to) const {
    using V = typename P::template Vec<typename Units::Unit>;
    constexpr int kLanes = tile::kLanesOf<V>;
    // Of columns side by side a panel has a short piece of each row of memory, where the hardware
    // does not know what follows: rows of memory that are wanted two steps later.
    constexpr int64_t kRowsAhead = 16;
    const int64_t next = side_by_side() ? kRowsAhead * rows.col_stride
                         : ahead > 0    ? ahead * rows.col_stride
                                        : tile::kPanelWidth * rows.lead_strides[0];
    if (side_by_side()) return pack_side_by_side<Units>(p, column, first, k, next, to);
    for (int64_t lane = 0; lane < tile::kPanelWidth; lane += kLanes) {
      const int64_t from = column + lane;
      if (from >= rows.rows) {
        for (int64_t u = 0; u * Units::kDepth < k; ++u)
          tile::store(to + u * tile::kPanelWidth + lane, V{});
        continue;
      }
      const tile::PackRows<P, T> lanes(rows.rows - from, rows.col_stride, next,
                                       [&](int i) { return rows.row(from + i).data; });
      tile::pack_wide<Units>(p, lanes, first, k, to + lane, tile::kPanelWidth);
    }
  }

  template <class Units, class P>
  TW_INLINE void pack_side_by_side(P, int64_t column, int64_t first, int64_t k, int64_t next,
                                   typename Units::Unit* to) const {
    using V = typename P::template Vec<typename Units::Unit>;
    constexpr int kLanes = tile::kLanesOf<V>;
    const int64_t valid = rows.rows - column;
    const T* at = rows.row(column).data + first * rows.col_stride;
    for (int64_t i = 0; i < k; i += Units::kDepth, at += Units::kDepth * rows.col_stride) {
      TW_UNROLL
      for (int d = 0; d < Units::kDepth; ++d) tile::prefetch_l2(at + next + d * rows.col_stride);
      TW_UNROLL
      for (int lane = 0; lane < tile::kPanelWidth; lane += kLanes, to += kLanes) {
        const int64_t left = valid - lane, count = left < kLanes ? left : kLanes;
        tile::store(
            to, count > 0 ? Units::template across<V>(at + lane, rows.col_stride, int(count), k - i)
                          : V{});
      }
    }
  }

  /// How far from the elements of some rows lies what is wanted next, if the rows after them lie
  /// `distance` from them: there, or further along the same rows if until then a second-level cache
  /// could have lost it.
  TW_INLINE static int64_t next_wanted(int64_t distance) {
    constexpr int64_t kSize = sizeof(T), kMost = int64_t{512} << 10, kAlong = 2048;  // bytes
    return distance * kSize <= kMost ? distance : kAlong / kSize;
  }

  template <class Units, class P>
  TW_INLINE void multiply(P p, int rows_of_a, const typename Units::Unit* a, int64_t column,
                          int64_t columns, int64_t k, tile::sum_t<Units>* tile) const {
    constexpr int kLanes = P::template kLanes<float>;
    if constexpr (tile::kReadsAlong<Units>)
      if (rows_of_a == 1)
        return tile::mma_along<Units>(
            p, a, [&](int64_t i) { return rows.row(column + i).data; }, columns, k, tile);
    tile::with_rows<kRowsAtOnce<P>>(rows_of_a, [&]<int kRows>() {
      // Rows at once: as many as prefetchers follow, in two chains of sums where one of short
      // vectors would not keep up with memory.
      constexpr int kGroups = kRows <= 2 && kLanes < 16 ? 2 : 1;
      const int64_t ahead = next_wanted(rows.lead_strides[0] * kGroups * kLanes);
      for (int64_t lane = 0; lane < columns; lane += kGroups * kLanes) {
        const auto rows_at = [&](int64_t from) {
          const int64_t valid = rows.rows - from;
          return tile::PackRows<P, T>(valid > 0 ? valid : 1, 1, ahead, [&](int i) {
            return rows.row(valid > 0 ? from + i : column).data;
          });
        };
        if constexpr (kGroups == 2) {
          const tile::PackRows<P, T> from[] = {rows_at(column + lane),
                                               rows_at(column + lane + kLanes)};
          tile::mma_from_rows<Units, P, T, kRows>(p, a, from, k, tile + lane);
        } else {
          const tile::PackRows<P, T> from[] = {rows_at(column + lane)};
          tile::mma_from_rows<Units, P, T, kRows>(p, a, from, k, tile + lane);
        }
      }
    });
  }
};

}  // namespace tw::kernels

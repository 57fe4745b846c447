#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/kernels/gemm_grouped_build_sm90.h"

namespace tw::kernels {
namespace {

using Groups = std::vector<int32_t>;
using Elements = std::multiset<std::pair<int, int>>;  // row, column of tiles

constexpr int kBlocks = 7;  // that walk the tiles

RowGroups groups_of(const Groups& ends, const Groups& starts) {
  const auto count = static_cast<int64_t>(ends.size());
  return {{ends.data(), {count}, {1}}, {starts.empty() ? nullptr : starts.data(), {count}, {1}}};
}

/// What all blocks together multiply for the rows of each group.
Elements covered(const Groups& ends, const Groups& starts, int rows, int columns) {
  const RowGroups groups = groups_of(ends, starts);
  Elements out;
  for (int block = 0; block < kBlocks; ++block) {
    GroupedGemmCursor tiles(groups, rows, columns);
    for (int64_t t = block; tiles.seek(t); t += kBlocks) {
      const GroupedGemmPlace place = tiles.place(t);
      EXPECT_GE(place.units * GroupedGemmBuild::kUnit, place.rows);
      EXPECT_LE(place.units, GroupedGemmBuild::kMostUnits);
      for (int r = 0; r < place.rows; ++r) {
        EXPECT_EQ(groups.group_of(place.row + r), place.group);
        out.insert({place.row + r, place.column});
      }
    }
  }
  return out;
}

Elements expected(const Groups& ends, const Groups& starts, int columns) {
  Elements out;
  for (size_t g = 0; g < ends.size(); ++g) {
    const int begin = !starts.empty() ? starts[g] : g > 0 ? ends[g - 1] : 0;
    for (int r = begin; r < ends[g]; ++r)
      for (int c = 0; c < columns; ++c) out.insert({r, c});
  }
  return out;
}

TEST(GroupedGemmCursor, EveryRowOfEveryGroupOnce) {
  for (const int columns : {1, 3, 11, 40})
    for (const Groups& ends :
         {Groups{16}, Groups{0, 0, 1, 1, 18}, Groups{200, 392, 585, 2000}, Groups{5, 5, 5}})
      EXPECT_EQ(covered(ends, {}, 2100, columns), expected(ends, {}, columns));
  const Groups starts{3, 40, 100, 700}, ends{17, 40, 600, 701};
  EXPECT_EQ(covered(ends, starts, 800, 5), expected(ends, starts, 5));
}

TEST(GroupedTileCursor, WithoutGroupsThereIsOneOfAllRows) {
  constexpr int kRows = 300, kColumns = 5, kTileRows = 128;
  const RowGroups none;
  std::multiset<std::pair<int, int>> seen;
  for (int block = 0; block < kBlocks; ++block) {
    GroupedTileCursor<kTileRows, 1> tiles(none, kRows, kColumns);
    for (int64_t t = block; tiles.seek(t); t += kBlocks) {
      const GroupedGemmPlace place = tiles.place(t);
      EXPECT_EQ(place.group, 0);
      EXPECT_LE(place.rows, kTileRows);
      for (int r = 0; r < place.rows; ++r) seen.insert({place.row + r, place.column});
    }
  }
  EXPECT_EQ(seen, expected({kRows}, {}, kColumns));
}

TEST(GroupedGemmCursor, OffsetsBeyondTheRowsEndWithThem) {
  const Groups ends{-5, 900};
  EXPECT_EQ(covered(ends, {}, 100, 1).size(), 100u);
}

}  // namespace
}  // namespace tw::kernels

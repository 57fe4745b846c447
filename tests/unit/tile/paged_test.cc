#include "tilewright/tile/paged.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tw::tile {
namespace {

constexpr int64_t kHeads = 2, kDims = 4;

/// Pages whose elements all differ, and which of them a sequence has.
struct Pages {
  int64_t size;
  std::vector<int> elements;
  std::vector<int32_t> table;

  Pages(int64_t page_size, std::vector<int32_t> pages_of_sequence)
      : size(page_size), table(std::move(pages_of_sequence)) {
    for (int i = 0; i < 6 * page_size * kHeads * kDims; ++i) elements.push_back(i);
  }
  View<const int, 4> view() const { return tw::view(elements.data(), 6, size, kHeads, kDims); }
  View<const int32_t, 1> view_of_table() const { return tw::view(table.data(), table.size()); }
};

/// Every row of every head is where the table says.
void expect_rows(const PagedRows<int>& rows, const Pages& pages,
                 const View<const int32_t, 1>& table, int64_t length) {
  const View<const int, 4> memory = pages.view();
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t i = 0; i < length; ++i) {
      const RowSegment<int> row = rows.head(h).at(i, i + 1);
      ASSERT_EQ(row.count, 1);
      for (int64_t d = 0; d < kDims; ++d)
        EXPECT_EQ(row.data[d * row.dim_stride], memory(table(i / pages.size), i % pages.size, h, d))
            << "row " << i << " of head " << h;
    }
}

/// Where the pieces of [first, end) begin, counted from first, and how long they are.
std::vector<std::pair<int64_t, int64_t>> pieces(const PagedRows<int>& rows, int64_t first,
                                                int64_t end, int64_t longest) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for_segments(rows, first, end, longest, [&](const RowSegment<int>& segment, int64_t offset) {
    EXPECT_EQ(segment.data, rows.at(first + offset, end).data);
    out.emplace_back(offset, segment.count);
  });
  return out;
}
using Pieces = std::vector<std::pair<int64_t, int64_t>>;

TEST(Paged, TheLastPageMayBeRagged) {
  const Pages pages(3, {4, 0, 5});
  const auto rows = paged_rows(pages.view(), pages.view_of_table());
  expect_rows(rows, pages, pages.view_of_table(), 8);
  EXPECT_EQ(rows.at(1, 8).count, 2);
  EXPECT_EQ(rows.at(7, 8).count, 1);
  EXPECT_EQ(rows.at(7, 8).readable, 2) << "the page has one more row than the sequence";
}

TEST(Paged, TheTableMayBeStrided) {
  const Pages pages(3, {2, -1, 5, -1, 1});
  const View<const int32_t, 1> table{pages.table.data(), {3}, {2}};
  expect_rows(paged_rows(pages.view(), table), pages, table, 9);
}

TEST(Paged, APageMayHaveOneRow) {
  const Pages pages(1, {3, 1, 4, 0});
  const auto rows = paged_rows(pages.view(), pages.view_of_table());
  expect_rows(rows, pages, pages.view_of_table(), 4);
  EXPECT_EQ(pieces(rows, 1, 4, 100), (Pieces{{0, 1}, {1, 1}, {2, 1}}));
}

TEST(Paged, WithoutATableRowsLieInOnePiece) {
  const Pages pages(9, {0});
  const View<const int, 3> x = pages.view()[0];
  const auto rows = paged_rows(x);
  expect_rows(rows, pages, pages.view_of_table(), 9);
  EXPECT_EQ(rows.at(2, 7).count, 5);
  EXPECT_EQ(rows.at(2, 7).readable, 7);
  EXPECT_EQ(pieces(rows, 0, 9, 100), (Pieces{{0, 9}}));
}

TEST(Paged, RowsMayHaveOneElement) {
  const std::vector<float> scales{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::vector<int32_t> table{2, 0};
  const auto one_piece = paged_rows(tw::view(scales.data(), 6, kHeads));
  EXPECT_EQ(*one_piece.head(1).at(4, 5).data, 9);
  const auto in_pages =
      paged_rows(tw::view(scales.data(), 3, 2, kHeads), tw::view(table.data(), 2));
  EXPECT_EQ(*in_pages.head(1).at(1, 2).data, 11);
  EXPECT_EQ(*in_pages.head(0).at(2, 3).data, 0);
}

TEST(Paged, SegmentsEndWithPagesAndWhereTheyGetTooLong) {
  const Pages pages(3, {4, 0, 5});
  const auto rows = paged_rows(pages.view(), pages.view_of_table());
  EXPECT_EQ(pieces(rows, 0, 8, 100), (Pieces{{0, 3}, {3, 3}, {6, 2}}));
  EXPECT_EQ(pieces(rows, 1, 8, 2), (Pieces{{0, 2}, {2, 2}, {4, 1}, {5, 2}}));
  EXPECT_EQ(pieces(rows, 4, 5, 100), (Pieces{{0, 1}}));
  EXPECT_EQ(pieces(rows, 4, 4, 100), Pieces{});
}

TEST(Paged, DimensionsAreLeftOutFromTheFirst) {
  const Pages pages(3, {4, 0, 5});
  View<const int, 4> every_other = pages.view();
  every_other.sizes[3] = kDims / 2, every_other.strides[3] = 2;
  const auto rows = paged_rows(every_other, pages.view_of_table());
  EXPECT_EQ(*rows.from_dim(1).head(1).at(5, 6).data, pages.view()(0, 2, 1, 2));
}

TEST(Paged, SharesOfRowsFollowEachOtherHoweverAPageIsLaidOut) {
  const Pages pages(3, {4, 0, 5});
  const int* const page = pages.elements.data();
  const View<const int, 4> by_rows{page, {6, 3, 1, kDims}, {3 * kDims, kDims, 3 * kDims, 1}};
  const View<const int, 4> by_dims{page, {6, 3, 1, kDims}, {3 * kDims, 1, 3 * kDims, 3}};
  for (const auto& memory : {by_rows, by_dims}) {
    const auto rows = paged_rows(memory, pages.view_of_table());
    EXPECT_TRUE(rows.is_close(kDims));
    EXPECT_EQ(rows.share(7, kDims), page + 5 * 3 * kDims + kDims);
  }
  EXPECT_FALSE(paged_rows(pages.view(), pages.view_of_table()).is_close(kDims))
      << "heads lie between the rows of one";
}

TEST(Paged, NoDataStaysNone) {
  const PagedRows<int> none;
  EXPECT_FALSE(none);
  EXPECT_FALSE(none.head(3));
}

}  // namespace
}  // namespace tw::tile

// What a GPU's relayout works out on the host: divisions, and what is gathered, by which pieces.
#include <algorithm>
#include <initializer_list>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/kernels/relayout_gather_gpu.h"

namespace tw::kernels {
namespace {

TEST(IndexDivisor, IsExactBelow2To31) {
  testing::Random random(1);
  constexpr int64_t kEnd = int64_t{1} << 31;
  for (int trial = 0; trial < 20000; ++trial) {
    const int64_t n = 2 + random.below(int64_t{1} << random.below(31));
    const IndexDivisor divisor(n);
    const int64_t multiple = random.below(kEnd) / n * n;
    for (const int64_t i : {int64_t{0}, n - 1, n, multiple, std::max<int64_t>(multiple, 1) - 1,
                            kEnd - 1, random.below(kEnd)})
      ASSERT_EQ(divisor.quotient(uint32_t(i)), i / n) << i << " / " << n;
  }
}

/// The gathering of the last two of these dimensions exchanged, of a source whose rows are so far
/// apart.
RelayoutGather<uint16_t> exchanged(int64_t units, int64_t lasts, int64_t pitch) {
  RelayoutDims dims;
  dims.push(units, 1, lasts);
  dims.push(lasts, pitch, 1);
  alignas(16) static uint16_t memory[16];  // nothing is read
  return RelayoutGather<uint16_t>(dims, memory, memory);
}

TEST(RelayoutGather, IsForWhatReadsFewSectorsOrIsSmall) {
  EXPECT_EQ(exchanged(1 << 22, 16, 1 << 22).rank, 2);
  EXPECT_EQ(exchanged(8, 1 << 22, 8).rank, 0);  // each sector again for each unit
  EXPECT_EQ(exchanged(8, 4096, 8).rank, 2);
  EXPECT_EQ(exchanged(1 << 27, 16, 1 << 27).rank, 0);  // 2^31 elements
}

TEST(RelayoutGather, IsByPiecesThatLieSideBySide) {
  const auto piece = [](int64_t last, int64_t stride, int64_t offset) {
    RelayoutDims dims;
    dims.push(5, stride, 7 * last);
    dims.push(7, 5 * stride, last);
    dims.push(last, 1, 1);
    alignas(16) static uint16_t memory[16];
    return RelayoutGather<uint16_t>(dims, memory + offset, memory).piece;
  };
  EXPECT_EQ(piece(8, 8, 0), 8);
  EXPECT_EQ(piece(12, 12, 0), 4);
  EXPECT_EQ(piece(8, 12, 4), 4);
  EXPECT_EQ(piece(8, 8, 1), 1);
  EXPECT_EQ(piece(8, 9, 0), 1);
  EXPECT_EQ(piece(6, 6, 0), 1);
}

}  // namespace
}  // namespace tw::kernels

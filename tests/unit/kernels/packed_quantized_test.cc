// Packed weights: nothing is lost in them, and what is not what it claims is refused.
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/kernels/quantized_weight.h"

namespace tw {
namespace {

using testing::block_dtypes;
using testing::bytes_view;
using testing::expect_same_bits;
using testing::Weight;

TEST(PackedQuantized, KeepsEveryWeightExactly) {
  for (const DType dtype : block_dtypes()) {
    SCOPED_TRACE(std::string(name(dtype)));
    for (const int64_t n : {1, 16, 37}) {
      for (const int64_t blocks : {0, 1, 3}) {
        const Weight w(dtype, n, blocks * info(dtype).block_elements);
        std::vector<float> row(static_cast<size_t>(w.k));
        for (int64_t r = 0; r < n; ++r) {
          ops::unpack_row(bytes_view(w.packed).data, r, row.data());
          expect_same_bits(row.data(), w.values.data() + r * w.k, w.k, "row");
        }
      }
    }
  }
}

TEST(PackedQuantized, StacksAndPairsRows) {
  const int64_t k = 64;
  const Weight a(DType::kQ4_1, 19, k), b(DType::kQ4_1, 5, k), c(DType::kQ4_1, 19, k);
  const ops::BlockRows parts[] = {
      {a.blocks.data(), 19}, {b.blocks.data(), 5}, {c.blocks.data(), 19}};
  const auto stacked = ops::pack_quantized(DType::kQ4_1, parts, k);
  const auto paired = ops::pack_gated(DType::kQ4_1, a.blocks.data(), c.blocks.data(), 19, k);
  ASSERT_EQ(stacked.rows, 43);
  ASSERT_EQ(paired.rows, 38);
  std::vector<float> row(static_cast<size_t>(k));
  const auto expect_row = [&](const ops::PackedQuantized& packed, int64_t r, const Weight& w,
                              int64_t from) {
    ops::unpack_row(bytes_view(packed).data, r, row.data());
    expect_same_bits(row.data(), w.values.data() + from * k, k, "row");
  };
  for (int64_t r = 0; r < 43; ++r)
    expect_row(stacked, r, r < 19 ? a : r < 24 ? b : c, r < 19 ? r : r < 24 ? r - 19 : r - 24);
  for (int64_t r = 0; r < 38; ++r) expect_row(paired, r, r < 19 ? a : c, r % 19);
}

TEST(PackedQuantized, RefusesImpossibleShapes) {
  const uint8_t blocks[64] = {};
  EXPECT_THROW(ops::pack_quantized(DType::kF32, blocks, 1, 32), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, 1, 33), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4K, blocks, 1, 128), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, -1, 32), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, 1, -32), Error);
  const int64_t huge = int64_t{1} << 62;
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, huge, 32), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, 1, huge), Error);
  EXPECT_THROW(ops::pack_gated(DType::kQ4_0, blocks, blocks, huge, 32), Error);
}

/// A header is refused unless the bytes are those of the shape it states.
TEST(PackedQuantized, ChecksTheHeader) {
  const Weight w(DType::kQ4K, 21, 512);
  const auto bytes = w.packed.bytes.span<uint8_t>();
  const std::vector<uint8_t> good(bytes.begin(), bytes.end());
  const auto reason = [](const std::vector<uint8_t>& data) {
    return ops::check_packed_quantized(data.data(), int64_t(data.size())).reason;
  };
  EXPECT_EQ(reason(good), "");
  for (const size_t size : {size_t{0}, size_t{63}, size_t{64}, good.size() - 1}) {
    EXPECT_NE(reason(std::vector<uint8_t>(good.begin(), good.begin() + int64_t(size))), "");
  }
  testing::Random random(7);
  for (size_t at = 0; at < sizeof(kernels::QuantizedHeader); ++at) {
    std::vector<uint8_t> bad = good;
    bad[at] = uint8_t(bad[at] ^ (1 + random.below(255)));
    const auto check = ops::check_packed_quantized(bad.data(), int64_t(bad.size()));
    if (!check.reason.empty()) continue;
    // What passes has the size that kernels will read.
    const auto f = kernels::quantized_format(DType(check.header.dtype));
    EXPECT_EQ(int64_t(sizeof(kernels::QuantizedHeader)) +
                  kernels::quantized_panels(check.header.rows, check.header.is_gated) *
                      f.panel_bytes(check.header.k / 32),
              int64_t(bad.size()))
        << "byte " << at;
  }
  kernels::QuantizedHeader header;
  for (const int64_t size : {int64_t{-1}, std::numeric_limits<int64_t>::max(), int64_t{1} << 60}) {
    std::vector<uint8_t> bad = good;
    std::memcpy(&header, bad.data(), sizeof(header));
    header.rows = size;
    std::memcpy(bad.data(), &header, sizeof(header));
    EXPECT_NE(reason(bad), "");
    header.rows = w.rows;
    header.k = size & ~int64_t{255};
    std::memcpy(bad.data(), &header, sizeof(header));
    EXPECT_NE(reason(bad), "");
  }
}

}  // namespace
}  // namespace tw

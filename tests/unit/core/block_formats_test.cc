#include "tilewright/core/block_formats.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/core/error.h"

namespace tw {
namespace {

// One zeroed block of kType with d = 1 and whatever `set` changes, dequantised.
template <DType kType, class Set>
std::vector<float> decoded(Set set) {
  Block<kType> block{};
  if constexpr (requires { block.d; }) block.d = f16(1.0f);
  set(block);
  std::vector<float> out(size_t(info(kType).block_elements));
  dequantize(kType, &block, out.data(), int64_t(out.size()));
  return out;
}

TEST(BlockFormats, Q4ElementsLieInLowThenHighNibbles) {
  const auto out = decoded<DType::kQ4_1>([](auto& block) {
    block.m = f16(0.5f);
    block.qs[3] = 0x92;
  });
  EXPECT_EQ(out[3], 2.5f);
  EXPECT_EQ(out[19], 9.5f);
  EXPECT_EQ(out[4], 0.5f);
}

TEST(BlockFormats, Q5TakesItsFifthBitFromQh) {
  const auto out = decoded<DType::kQ5_0>([](auto& block) {
    block.qs[1] = 0x21;
    block.qh[0] = 0x02;  // element 1
    block.qh[2] = 0x02;  // element 17
  });
  EXPECT_EQ(out[1], 1.0f + 16 - 16);
  EXPECT_EQ(out[17], 2.0f + 16 - 16);
  EXPECT_EQ(out[0], -16.0f);
}

TEST(BlockFormats, Q4KUnpacksSixBitScalesAndMins) {
  uint8_t scales[12] = {};
  scales[0] = 0xff;  // scale 0 = 63, high bits of scale 4 = 3
  scales[4] = 0x41;  // min 0 = 1, high bits of min 4 = 1
  scales[8] = 0x2a;  // low bits: scale 4 = 10, min 4 = 2
  EXPECT_EQ(k_scale_min(scales, 0).scale, 63);
  EXPECT_EQ(k_scale_min(scales, 0).min, 1);
  EXPECT_EQ(k_scale_min(scales, 4).scale, 10 + 48);
  EXPECT_EQ(k_scale_min(scales, 4).min, 2 + 16);
  const auto out = decoded<DType::kQ4K>([&](auto& block) {
    block.dmin = f16(1.0f);
    std::memcpy(block.scales, scales, sizeof scales);
    block.qs[64 + 5] = 0x03;  // sub-block 4, element 5
  });
  EXPECT_EQ(out[4 * 32 + 5], 3.0f * 58 - 18);
  EXPECT_EQ(out[4 * 32 + 6], -18.0f);
  EXPECT_EQ(out[0], -1.0f);
}

TEST(BlockFormats, Mxfp4ScaleIsAPowerOfTwo) {
  EXPECT_EQ(e8m0_half(127), 0.5f);
  EXPECT_EQ(e8m0_half(128), 1.0f);
  EXPECT_EQ(e8m0_half(2), std::ldexp(1.0f, -126));
  EXPECT_EQ(e8m0_half(1), std::ldexp(1.0f, -127));
  EXPECT_EQ(e8m0_half(0), std::ldexp(1.0f, -128));
  const auto out = decoded<DType::kMxfp4>([](auto& block) {
    block.e = 127;
    block.qs[0] = 0xf7;
  });
  EXPECT_EQ(out[0], 6.0f);
  EXPECT_EQ(out[16], -6.0f);
}

TEST(BlockFormats, EveryTypeReadsAnyAlignmentAndExactlyItsBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(std::string(name(dtype)));
    const int64_t n = 3 * info(dtype).block_elements;
    const size_t bytes = 3 * size_t(element_size(dtype));
    std::vector<uint8_t> shifted(bytes + 1);  // its last byte ends the allocation: ASan watches
    for (auto& byte : shifted) byte = uint8_t(random());
    const std::vector<uint8_t> aligned(shifted.begin() + 1, shifted.end());
    std::vector<float> from_shifted(size_t(n), -1), from_aligned(size_t(n), -2);
    dequantize(dtype, shifted.data() + 1, from_shifted.data(), n);
    dequantize(dtype, aligned.data(), from_aligned.data(), n);
    EXPECT_EQ(std::memcmp(from_shifted.data(), from_aligned.data(), size_t(n) * sizeof(float)), 0);
  }
}

TEST(BlockFormats, ScalarsConvert) {
  const int64_t ints[] = {-5, int64_t(1) << 40};
  float out[2];
  dequantize(DType::kI64, ints, out, 2);
  EXPECT_EQ(out[0], -5.0f);
  EXPECT_EQ(out[1], 1099511627776.0f);
  const uint8_t bools[] = {0, 7};
  dequantize(DType::kBool, bools, out, 2);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 1.0f);
}

// Halves of the scale bound the rounding error of a value inside the block's range.
TEST(BlockFormats, QuantizeRoundsToNearest) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> x(320), back(x.size());
  for (auto& v : x) v = normal(random);
  for (const DType dtype : {DType::kQ4_1, DType::kQ8_0}) {
    SCOPED_TRACE(std::string(name(dtype)));
    std::vector<uint8_t> blocks(10 * size_t(element_size(dtype)));
    quantize(dtype, x.data(), blocks.data(), int64_t(x.size()));
    dequantize(dtype, blocks.data(), back.data(), int64_t(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      f16 d;
      std::memcpy(&d, &blocks[i / 32 * size_t(element_size(dtype))], sizeof d);
      EXPECT_LE(std::fabs(back[i] - x[i]), 0.51f * float(d) + 0.005f) << i;
    }
  }
}

TEST(BlockFormats, Q4_0KeepsTheExtremeExactly) {
  std::vector<float> x(32, 0.25f), back(32);
  x[9] = -4.0f;
  Block<DType::kQ4_0> block;
  quantize(DType::kQ4_0, x.data(), &block, 32);
  EXPECT_EQ(float(block.d), 0.5f);
  dequantize(DType::kQ4_0, &block, back.data(), 32);
  EXPECT_EQ(back[9], -4.0f);
  EXPECT_EQ(back[8], 0.5f);  // 0.25 / 0.5 + 8.5 = 9.0: half a step rounds up
}

// 64 blocks: one of zeros, one of multiples of 1/2 that tie, and pseudo-random ones of many scales.
std::vector<float> golden_input() {
  std::vector<float> x(64 * 32);
  for (uint32_t i = 32; i < x.size(); ++i) {
    const uint32_t bits = (i * 2654435761u) >> 8;  // 24 bits: exact in float32
    x[i] = std::ldexp(float(int32_t(bits) - (1 << 23)), int(i / 32 % 23) - 30);
    if (i < 64) x[i] = float(int32_t(i % 17) - 8) * 0.5f;
  }
  return x;
}

// FNV-1a, 64 bits.
uint64_t hash(const std::vector<uint8_t>& bytes) {
  uint64_t out = 0xcbf29ce484222325u;
  for (const uint8_t byte : bytes) out = (out ^ byte) * 0x100000001b3u;
  return out;
}

// The hashes are those of gguf.quants.quantize; tests/python/test_gguf.py checks that they are.
TEST(BlockFormats, QuantizeMatchesGgml) {
  const std::vector<float> x = golden_input();
  const std::pair<DType, uint64_t> goldens[] = {
      {DType::kQ4_0, 0xaa76b62e822e4edbu},
      {DType::kQ4_1, 0x368d38be30f51e99u},
      {DType::kQ8_0, 0xb3796fd621d1c615u},
  };
  for (const auto& [dtype, golden] : goldens) {
    std::vector<uint8_t> blocks(64 * size_t(element_size(dtype)));
    quantize(dtype, x.data(), blocks.data(), int64_t(x.size()));
    EXPECT_EQ(hash(blocks), golden) << name(dtype);
  }
}

TEST(BlockFormats, QuantizeSurvivesZerosNanAndInf) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = HUGE_VALF, tiny = 1e-44f;
  for (const float odd : {0.0f, nan, inf, -inf, tiny}) {
    for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
      std::vector<float> x(32, 0.0f), back(32, -1.0f);
      x[5] = odd;
      std::vector<uint8_t> block(size_t(element_size(dtype)));
      quantize(dtype, x.data(), block.data(), 32);
      dequantize(dtype, block.data(), back.data(), 32);
      if (odd == 0.0f) {
        EXPECT_EQ(back, x);
      }
    }
  }
}

TEST(BlockFormats, RefusesPartsOfBlocksAndOtherTypes) {
  float x[32] = {};
  uint8_t bytes[64] = {};
  const auto kind_of = [](auto call) {
    try {
      call();
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  EXPECT_EQ(kind_of([&] { dequantize(DType::kQ4_0, bytes, x, 31); }), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { dequantize(DType::kF32, bytes, x, -1); }), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { quantize(DType::kQ8_0, x, bytes, 16); }), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { quantize(DType::kQ6K, x, bytes, 0); }), ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace tw

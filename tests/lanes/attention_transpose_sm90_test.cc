// Weights times values of 8 bits on Hopper, as tensor cores see both operands: the device's text of
// what puts them there, run by threads as lanes (testing/lanes).
#include "tilewright/kernels/attention_transpose_sm90.h"

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/kernels/attention_policy_sm90.h"
#include "tilewright/kernels/attention_softmax_sm90.h"

namespace tw::kernels {
namespace {

constexpr int kRowBytes = 128;

/// Where byte `column` of a row of 128 lies in the swizzle.
int swizzled(int row, int column) {
  return row * kRowBytes + ((column / 16) ^ (row % 8)) * 16 + column % 16;
}

/// A block of values in shared memory, before and after.
template <AttentionBuild kBuild>
struct Block {
  static constexpr int kKeys = kBuild.keys, kDims = kBuild.value_dims;
  using Transpose = AttentionTranspose<f8_e4m3fn, kBuild>;

  struct alignas(1024) Memory {
    char loaded[kBuild.loaded_value_bytes()], transposed[kBuild.value_bytes()];
  };
  std::unique_ptr<Memory> memory = std::make_unique<Memory>();

  uint8_t& value(int key, int dim) {
    char* const chunk = memory->loaded + dim / kRowBytes * kKeys * kRowBytes;
    return reinterpret_cast<uint8_t&>(chunk[swizzled(key, dim % kRowBytes)]);
  }
  /// As wgmma reads the right operand.
  double operand(int place, int dim) const {
    f8_e4m3fn out;
    out.bits = uint8_t(memory->transposed[swizzled(dim, place)]);
    return double(float(out));
  }

  template <bool kTail>
  void transpose(int keys) {
    for (int warp = 0; warp < kBuild.transposers; ++warp)
      testing::run_warp(0, unsigned(32 * warp), [&] {
        Transpose::template transpose<kTail>(memory->loaded, memory->transposed, keys);
      });
  }
};

/// The left operand that a warp of a consumer makes of its 16 rows of weights: of each row, by
/// place.
template <int kKeys>
std::vector<std::vector<double>> left_operand(const std::vector<std::vector<float>>& weights) {
  std::vector<std::vector<double>> out(16, std::vector<double>(kKeys));
  for (int lane = 0; lane < 32; ++lane) {
    const int row = lane / 4, quad = lane % 4;
    float scores[kKeys / 2];  // tile/cuda/wgmma.h
    for (int i = 0; i < kKeys / 8; ++i)
      for (int r = 0; r < 2; ++r)
        for (int c = 0; c < 2; ++c)
          scores[4 * i + 2 * r + c] = weights[size_t(row + 8 * r)][size_t(8 * i + 2 * quad + c)];
    uint32_t words[kKeys / 8];
    round_weights<f8_e4m3fn>(scores, words);
    for (int i = 0; i < kKeys / 8; ++i)  // tile/cuda/wgmma_fragment.h
      for (int byte = 0; byte < 4; ++byte) {
        f8_e4m3fn weight;
        weight.bits = uint8_t(words[i] >> (8 * byte));
        const int place = i / 4 * 32 + i % 4 / 2 * 16 + 4 * quad + byte;
        out[size_t(row + i % 2 * 8)][size_t(place)] = double(float(weight));
      }
  }
  return out;
}

template <int kIndex>
void check(int keys) {
  constexpr AttentionBuild kBuild = kAttentionFp8Builds[kIndex];
  Block<kBuild> block;
  std::mt19937 random(unsigned(kIndex + 1));
  std::vector<std::vector<double>> values(kBuild.keys, std::vector<double>(kBuild.value_dims));
  for (int key = 0; key < kBuild.keys; ++key)
    for (int dim = 0; dim < kBuild.value_dims; ++dim) {
      f8_e4m3fn value(float(int(random() % 31) - 15));
      values[size_t(key)][size_t(dim)] = key < keys ? double(float(value)) : 0;
      block.value(key, dim) = key < keys ? value.bits : uint8_t{0x7f};  // NaN is nobody's
    }
  std::vector<std::vector<float>> weights(16, std::vector<float>(kBuild.keys));
  for (auto& row : weights)
    for (float& weight : row) weight = float(random() % 16);

  if (keys == kBuild.keys)
    block.template transpose<false>(keys);
  else
    block.template transpose<true>(keys);
  const auto left = left_operand<kBuild.keys>(weights);
  for (size_t row = 0; row < 16; ++row)
    for (int dim = 0; dim < kBuild.value_dims; ++dim) {
      double got = 0, want = 0;
      for (int key = 0; key < kBuild.keys; ++key) {
        got += left[row][size_t(key)] * block.operand(key, dim);
        want += double(weights[row][size_t(key)]) * values[size_t(key)][size_t(dim)];
      }
      ASSERT_EQ(got, want) << "row " << row << ", dim " << dim;
    }
}

TEST(AttentionTranspose, PutsValuesWhereTheirWeightsAre) {
  check<0>(kAttentionFp8Builds[0].keys);
  check<1>(kAttentionFp8Builds[1].keys);
  check<2>(kAttentionFp8Builds[2].keys);
  check<3>(kAttentionFp8Builds[3].keys);
}

TEST(AttentionTranspose, ClearsWhatFollowsTheLastKey) {
  for (const int keys : {1, 31, 32, 58}) check<0>(keys);
  check<2>(69);
}

}  // namespace
}  // namespace tw::kernels

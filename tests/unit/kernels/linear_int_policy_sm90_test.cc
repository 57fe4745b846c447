// Which kernel of a linear layer with weights of 4 or 8 bits runs on Hopper.
#include "tilewright/kernels/linear_int_policy_sm90.h"

#include <gtest/gtest.h>

#include "tests/unit/kernels/hopper.h"

namespace tw::kernels {
namespace {

template <int kBits = 4>
LinearIntChoice choose(int64_t m, int64_t n, int64_t k, int64_t group, bool is_regular = true) {
  return choose_linear_int_sm90<kBits>({m, n, k, group, is_regular}, kMultiprocessors);
}
template <int kBits = 4>
LinearIntKernel kernel(int64_t m, int64_t n, int64_t k, int64_t group, bool is_regular = true) {
  return choose<kBits>(m, n, k, group, is_regular).kernel;
}

TEST(LinearIntPolicySm90, TokensDecide) {
  EXPECT_EQ(kernel(1, 4096, 4096, 128), LinearIntKernel::kRow);
  EXPECT_EQ(kernel(4, 14336, 4096, 128), LinearIntKernel::kRow);
  EXPECT_EQ(kernel(5, 4096, 4096, 128), LinearIntKernel::kFew);
  EXPECT_EQ(kernel(16, 4096, 4096, 128), LinearIntKernel::kFew);
  EXPECT_EQ(kernel(17, 4096, 4096, 128), LinearIntKernel::kMany);
  EXPECT_EQ(kernel(8, 14336, 4096, 128), LinearIntKernel::kFew);
  EXPECT_EQ(kernel(9, 14336, 4096, 128), LinearIntKernel::kMany);
}

TEST(LinearIntPolicySm90, BlocksHaveAsManyFeaturesAsFillTheChip) {
  const auto expect = [](int64_t m, int64_t n, int tokens, int ways, int splits) {
    const LinearIntChoice choice = choose(m, n, 4096, 128);
    EXPECT_EQ(choice.kernel, LinearIntKernel::kMany);
    EXPECT_EQ(kLinearIntBuilds<4>[choice.build].tokens, tokens) << m << " x " << n;
    EXPECT_EQ(kLinearIntBuilds<4>[choice.build].ways, ways) << m << " x " << n;
    EXPECT_EQ(choice.splits, splits) << m << " x " << n;
  };
  expect(128, 14336, 128, 1, 1);
  expect(64, 14336, 64, 1, 1);
  expect(16, 14336, 16, 1, 1);
  expect(128, 4096, 128, 2, 2);
  expect(64, 8192, 64, 1, 2);
  expect(64, 4096, 64, 2, 2);
  expect(32, 4096, 32, 2, 2);
  expect(128, 1024, 128, 2, 4);
}

TEST(LinearIntPolicySm90, ARowIsWhatItsKernelTakes) {
  EXPECT_EQ(kernel(1, 4096, 4096, 128, false), LinearIntKernel::kFew);
  EXPECT_EQ(kernel(1, 4096, 4096, 64), LinearIntKernel::kFew);
  EXPECT_EQ(kernel(1, 4096, 896, 128), LinearIntKernel::kFew);  // fewer spans than warps
  EXPECT_EQ(kernel(1, 4096, 1024, 1024), LinearIntKernel::kRow);
  EXPECT_EQ(kernel(1, 4096, 28672, 128), LinearIntKernel::kRow);
  EXPECT_EQ(kernel(4, 4096, 28672, 128), LinearIntKernel::kFew);  // too much shared memory
}

TEST(LinearIntPolicySm90, BlocksOfSeveralTokensShareTiles) {
  const int64_t places = kMultiprocessors * kLinearIntRowBuild<4>.resident;
  EXPECT_EQ(choose(1, 14336, 4096, 128).blocks, places);
  EXPECT_EQ(choose(1, 28672, 4096, 128).blocks, 28672 / 16);
  EXPECT_EQ(choose(4, 28672, 4096, 128).blocks, places);
  EXPECT_EQ(choose(4, 4095, 4096, 128).blocks, 256);
}

TEST(LinearIntPolicySm90, StepsAreEven) {
  constexpr LinearIntRowBuild<4> kBuild = {256, 4, 3};
  EXPECT_EQ(kBuild.warp_spans(4096), 4);
  EXPECT_EQ(kBuild.token_bytes(4096), 4 * 256 + 64);
  EXPECT_EQ(kBuild.warp_spans(2048), 2);
  EXPECT_EQ(kBuild.warp_spans(5120), 3);  // two steps of three spans for eight warps
  EXPECT_EQ(kBuild.token_bytes(5120), 6 * 256 + 64);
  EXPECT_EQ(kBuild.warp_spans(32), 1);
}

TEST(LinearIntPolicySm90, ScalesOfFewValuesTakeTheKernelThatHasThem) {
  for (const int64_t m : {1, 20, 500}) {
    const LinearIntChoice choice = choose(m, 4096, 4096, 32);
    ASSERT_EQ(choice.kernel, LinearIntKernel::kFew) << m;
    EXPECT_TRUE(kLinearIntFewBuilds<4>[choice.build].narrow) << m;
  }
  EXPECT_TRUE(kLinearIntFewBuilds<4>[choose(1, 4096, 4096, 64).build].narrow);
  EXPECT_FALSE(kLinearIntFewBuilds<4>[choose(8, 4096, 4096, 256).build].narrow);
  EXPECT_EQ(kernel(100, 4096, 4096, 64), LinearIntKernel::kMany);
}

TEST(LinearIntPolicySm90, FewTilesAreNarrower) {
  const auto features = [](int64_t m, int64_t n) {
    const LinearIntChoice choice = choose(m, n, 4096, 128);
    EXPECT_EQ(choice.splits, 1);
    return kLinearIntFewBuilds<4>[choice.build].features;
  };
  EXPECT_EQ(features(8, 4096), 16);
  EXPECT_EQ(features(16, 4096), 16);
  EXPECT_EQ(features(8, 14336), 64);
  EXPECT_EQ(features(5, 14336), 64);
}

TEST(LinearIntPolicySm90, NumbersOf8BitsHaveSpansOf64) {
  EXPECT_EQ(kernel<8>(1, 4096, 4096, 64), LinearIntKernel::kRow);
  EXPECT_EQ(kernel<8>(1, 4096, 512, 4096), LinearIntKernel::kRow);
  EXPECT_EQ(kernel<8>(5, 4096, 4096, 64), LinearIntKernel::kMany);
  EXPECT_EQ(kernel<8>(1, 4096, 4096, 32), LinearIntKernel::kFew);
  EXPECT_TRUE(kLinearIntFewBuilds<8>[choose<8>(1, 4096, 4096, 32).build].narrow);
  EXPECT_EQ(kLinearIntFewBuilds<8>[choose<8>(9, 4096, 4096, 96).build].tokens, 16);
  EXPECT_EQ(kernel<8>(128, 14336, 4096, 4096), LinearIntKernel::kMany);
  constexpr LinearIntRowBuild<8> kBuild = {256, 4, 3};
  EXPECT_EQ(kBuild.warp_spans(4096), 4);  // two steps
  EXPECT_EQ(kBuild.token_bytes(4096), 2 * 4 * 128 + 64);
}

TEST(LinearIntPolicySm90, BlocksShareKWhereTilesAreFew) {
  EXPECT_EQ(choose(1, 2048, 4096, 32).splits, 2);
  EXPECT_EQ(choose(1, 4096, 4096, 32).splits, 1);
  EXPECT_EQ(choose(64, 2048, 4096, 128).splits, 4);
  EXPECT_EQ(choose(64, 1024, 1024, 128).splits, 2);  // four stages
}

}  // namespace
}  // namespace tw::kernels

// Which kernel of the linear layer with 4-bit weights runs on Hopper.
#include "tilewright/kernels/linear_int4_policy_sm90.h"

#include <gtest/gtest.h>

namespace tw::kernels {
namespace {

constexpr int kMultiprocessors = 132;

LinearInt4Choice choose(int64_t m, int64_t n, int64_t k, int64_t group, bool is_regular = true) {
  return choose_linear_int4_sm90({m, n, k, group, is_regular}, kMultiprocessors);
}
LinearInt4Kernel kernel(int64_t m, int64_t n, int64_t k, int64_t group, bool is_regular = true) {
  return choose(m, n, k, group, is_regular).kernel;
}

TEST(LinearInt4PolicySm90, TokensDecide) {
  EXPECT_EQ(kernel(1, 4096, 4096, 128), LinearInt4Kernel::kRow);
  EXPECT_EQ(kernel(4, 14336, 4096, 128), LinearInt4Kernel::kRow);
  EXPECT_EQ(kernel(5, 4096, 4096, 128), LinearInt4Kernel::kFew);
  EXPECT_EQ(kernel(32, 4096, 4096, 128), LinearInt4Kernel::kFew);
  EXPECT_EQ(kernel(33, 4096, 4096, 128), LinearInt4Kernel::kMany);
  EXPECT_EQ(kernel(32, 14336, 4096, 128), LinearInt4Kernel::kMany);
}

TEST(LinearInt4PolicySm90, BlocksHaveAsManyFeaturesAsFillTheChip) {
  const auto expect = [](int64_t m, int64_t n, int tokens, int ways, int splits) {
    const LinearInt4Choice choice = choose(m, n, 4096, 128);
    EXPECT_EQ(choice.kernel, LinearInt4Kernel::kMany);
    EXPECT_EQ(kLinearInt4Builds[choice.build].tokens, tokens) << m << " x " << n;
    EXPECT_EQ(kLinearInt4Builds[choice.build].ways, ways) << m << " x " << n;
    EXPECT_EQ(choice.splits, splits) << m << " x " << n;
  };
  expect(128, 14336, 128, 1, 1);
  expect(64, 14336, 64, 1, 1);
  expect(128, 4096, 128, 2, 2);
  expect(64, 8192, 64, 1, 2);
  expect(64, 4096, 64, 2, 2);
  expect(128, 1024, 128, 2, 2);
}

TEST(LinearInt4PolicySm90, ARowIsWhatItsKernelTakes) {
  EXPECT_EQ(kernel(1, 4096, 4096, 128, false), LinearInt4Kernel::kFew);
  EXPECT_EQ(kernel(1, 4096, 4096, 64), LinearInt4Kernel::kFew);
  EXPECT_EQ(kernel(1, 4096, 896, 128), LinearInt4Kernel::kFew);  // fewer spans than warps
  EXPECT_EQ(kernel(1, 4096, 1024, 1024), LinearInt4Kernel::kRow);
  EXPECT_EQ(kernel(1, 4096, 28672, 128), LinearInt4Kernel::kRow);
  EXPECT_EQ(kernel(4, 4096, 28672, 128), LinearInt4Kernel::kFew);  // too much shared memory
}

TEST(LinearInt4PolicySm90, BlocksOfSeveralTokensShareTiles) {
  EXPECT_EQ(choose(1, 14336, 4096, 128).blocks, 896);
  EXPECT_EQ(choose(4, 14336, 4096, 128).blocks, kMultiprocessors * kLinearInt4RowBuild.resident);
  EXPECT_EQ(choose(4, 4095, 4096, 128).blocks, 256);
}

TEST(LinearInt4PolicySm90, StepsAreEven) {
  constexpr LinearInt4RowBuild kBuild = {256, 4, 3};
  EXPECT_EQ(kBuild.warp_spans(4096), 4);
  EXPECT_EQ(kBuild.token_bytes(4096), 4 * 256 + 64);
  EXPECT_EQ(kBuild.warp_spans(2048), 2);
  EXPECT_EQ(kBuild.warp_spans(5120), 3);  // two steps of three spans for eight warps
  EXPECT_EQ(kBuild.token_bytes(5120), 6 * 256 + 64);
  EXPECT_EQ(kBuild.warp_spans(32), 1);
}

TEST(LinearInt4PolicySm90, ScalesOfFewValuesTakeTheKernelThatHasThem) {
  for (const int64_t m : {1, 20, 500}) {
    const LinearInt4Choice choice = choose(m, 4096, 4096, 32);
    ASSERT_EQ(choice.kernel, LinearInt4Kernel::kFew) << m;
    EXPECT_TRUE(kLinearInt4FewBuilds[choice.build].narrow) << m;
  }
  EXPECT_TRUE(kLinearInt4FewBuilds[choose(1, 4096, 4096, 64).build].narrow);
  EXPECT_FALSE(kLinearInt4FewBuilds[choose(8, 4096, 4096, 256).build].narrow);
  EXPECT_EQ(kernel(100, 4096, 4096, 64), LinearInt4Kernel::kMany);
}

TEST(LinearInt4PolicySm90, FewTilesAreNarrower) {
  const auto features = [](int64_t m, int64_t n) {
    const LinearInt4Choice choice = choose(m, n, 4096, 128);
    EXPECT_EQ(choice.splits, 1);
    return kLinearInt4FewBuilds[choice.build].features;
  };
  EXPECT_EQ(features(8, 4096), 16);
  EXPECT_EQ(features(16, 4096), 16);
  EXPECT_EQ(features(8, 14336), 64);
  EXPECT_EQ(features(16, 14336), 64);
}

TEST(LinearInt4PolicySm90, BlocksShareKWhereTilesAreFew) {
  EXPECT_EQ(choose(1, 2048, 4096, 32).splits, 2);
  EXPECT_EQ(choose(1, 4096, 4096, 32).splits, 1);
  EXPECT_EQ(choose(64, 2048, 4096, 128).splits, 2);
}

}  // namespace
}  // namespace tw::kernels

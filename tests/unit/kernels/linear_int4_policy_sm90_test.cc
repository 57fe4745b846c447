// Which kernel of the linear layer with 4-bit weights runs on Hopper.
#include "tilewright/kernels/linear_int4_policy_sm90.h"

#include <gtest/gtest.h>

namespace tw::kernels {
namespace {

constexpr int kMultiprocessors = 132;

LinearInt4Choice choose(int64_t m, int64_t n, int64_t k, int64_t group) {
  return choose_linear_int4_sm90({m, n, k, group}, kMultiprocessors);
}

TEST(LinearInt4PolicySm90, TokensDecide) {
  EXPECT_TRUE(choose(1, 4096, 4096, 128).few);
  EXPECT_TRUE(choose(32, 4096, 4096, 128).few);
  EXPECT_FALSE(choose(33, 4096, 4096, 128).few);
  EXPECT_FALSE(choose(32, 14336, 4096, 128).few);
  const LinearInt4Choice many = choose(128, 14336, 4096, 128);
  EXPECT_EQ(kLinearInt4Builds[many.build].tokens, 128);
  EXPECT_EQ(kLinearInt4Builds[many.build].ways, 1);
  const LinearInt4Choice narrow = choose(128, 4096, 4096, 128);
  EXPECT_EQ(kLinearInt4Builds[narrow.build].ways, 2);
}

TEST(LinearInt4PolicySm90, ScalesOfFewValuesTakeTheKernelThatHasThem) {
  for (const int64_t m : {1, 20, 500}) {
    const LinearInt4Choice choice = choose(m, 4096, 4096, 32);
    ASSERT_TRUE(choice.few) << m;
    EXPECT_TRUE(kLinearInt4FewBuilds[choice.build].narrow) << m;
  }
  EXPECT_TRUE(kLinearInt4FewBuilds[choose(1, 4096, 4096, 64).build].narrow);
  EXPECT_FALSE(kLinearInt4FewBuilds[choose(1, 4096, 4096, 256).build].narrow);
  EXPECT_FALSE(choose(100, 4096, 4096, 64).few);
}

TEST(LinearInt4PolicySm90, FewTilesAreNarrower) {
  const auto features = [](int64_t m, int64_t n) {
    const LinearInt4Choice choice = choose(m, n, 4096, 128);
    EXPECT_EQ(choice.splits, 1);
    return kLinearInt4FewBuilds[choice.build].features;
  };
  EXPECT_EQ(features(1, 4096), 16);
  EXPECT_EQ(features(16, 4096), 16);
  EXPECT_EQ(features(1, 14336), 64);
  EXPECT_EQ(features(16, 14336), 64);
}

TEST(LinearInt4PolicySm90, BlocksShareKWhereTilesAreFew) {
  EXPECT_EQ(choose(1, 2048, 4096, 32).splits, 2);
  EXPECT_EQ(choose(1, 4096, 4096, 32).splits, 1);
  EXPECT_EQ(choose(64, 2048, 4096, 128).splits, 2);
}

}  // namespace
}  // namespace tw::kernels

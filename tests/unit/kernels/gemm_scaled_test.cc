#include <set>

#include <gtest/gtest.h>

#include "tests/unit/kernels/hopper.h"
#include "tilewright/kernels/gemm_scaled_experts_build_sm90.h"
#include "tilewright/kernels/gemm_scaled_policy_sm90.h"

namespace tw::kernels {
namespace {

TEST(ScaledGemmBuild, FitsAMultiprocessor) {
  for (const ScaledGemmBuild& build : kScaledGemmBuilds) {
    EXPECT_LE(build.shared_bytes(), 232448);
    EXPECT_GE(build.stages(), 4);
    EXPECT_EQ(build.columns % ScaledGemmBuild::kSpan, 0);
  }
}

TEST(ScaledExpertsBuild, FitsAMultiprocessorAndIsChosen) {
  std::set<int> chosen;
  for (const ScaledExpertsBuild& build : kScaledExpertsBuilds) {
    EXPECT_LE(build.shared_bytes(), 232448);
    EXPECT_GE(build.stages(), 4);
    const int64_t m = build.rows == 64 ? 8 * 64 : 8 * 64 + 1;
    chosen.insert(choose_scaled_experts_sm90(build.gated, build.gathered, build.wide, m, 8));
  }
  EXPECT_EQ(int(chosen.size()), kScaledExpertsBuildCount);
  EXPECT_EQ(choose_scaled_experts_sm90(true, true, true, 8, 8), -1);
}

TEST(ScaledGemmPolicy, LargeProductsHaveLargeTiles) {
  for (const ScaledGemmSize size :
       {ScaledGemmSize{1, 4096, 4096, 7168, false}, ScaledGemmSize{8, 32768, 4096, 7168, true}}) {
    const ScaledGemmBuild& build =
        kScaledGemmBuilds[choose_scaled_gemm_sm90(size, kMultiprocessors)];
    EXPECT_EQ(build.rows * build.columns, 128 * 192);
  }
}

TEST(ScaledGemmPolicy, OnlyKnownRowsShareTheirK) {
  const auto split = [](bool is_grouped) {
    const ScaledGemmSize size{1, 64, 2112, 7168, is_grouped};
    return kScaledGemmBuilds[choose_scaled_gemm_sm90(size, kMultiprocessors)].split;
  };
  EXPECT_GT(split(false), 1);
  EXPECT_EQ(split(true), 1);
}

TEST(ScaledGemmPolicy, EveryBuildIsTheBestOfSome) {
  std::set<int> chosen;
  for (const int64_t groups : {1, 3})
    for (const int64_t m : {8, 64, 128, 200, 2900, 4096})
      for (const int64_t n : {72, 136, 2112, 2908, 4096})
        for (const int64_t k : {16, 2048, 7168})
          chosen.insert(choose_scaled_gemm_sm90({groups, m, n, k, groups > 1}, kMultiprocessors));
  EXPECT_EQ(chosen.size(), size_t(kScaledGemmBuildCount));
}

}  // namespace
}  // namespace tw::kernels

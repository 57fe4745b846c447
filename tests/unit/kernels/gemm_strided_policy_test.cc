// Which builds of the matrix multiplication for any GPU are chosen: that all of k is dealt out,
// once.
#include "tilewright/kernels/gemm_strided_policy.h"

#include <utility>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tests/unit/kernels/hopper.h"
#include "tilewright/core/dtype.h"

namespace tw::kernels {
namespace {

template <class T>
void expect_parts_to_cover_k() {
  using Limits = gemm_strided_policy::Limits<T>;
  testing::Random random(1);
  const auto size = [&] { return 1 + int64_t(random.uniform() * random.uniform() * 5000); };
  for (int i = 0; i < 2000; ++i) {
    const GemmStridedSize of{1 + i % 3, size(), size(), i % 50 == 0 ? 0 : size() * 3};
    const GemmStridedChoice choice = choose_gemm_strided<T>(of, kMultiprocessors);
    ASSERT_GE(choice.shape, 0);
    ASSERT_LT(choice.shape, Limits::kCount);
    ASSERT_EQ(0, choice.k_part % Limits::kShapes[choice.shape].build.depth);
    ASSERT_GE(choice.parts * choice.k_part, of.k) << of.m << " x " << of.n << " x " << of.k;
    ASSERT_LT((choice.parts - 1) * choice.k_part, of.k > 0 ? of.k : 1);
  }
}

TEST(GemmStridedPolicy, PartsCoverAllOfKOnce) {
  expect_parts_to_cover_k<float>();
  expect_parts_to_cover_k<bf16>();
}

TEST(GemmStridedPolicy, OnlyFewTilesAreDivided) {
  EXPECT_EQ(1, choose_gemm_strided<float>({1, 8192, 8192, 8192}, kMultiprocessors).parts);
  EXPECT_GT(choose_gemm_strided<float>({1, 128, 128, 65536}, kMultiprocessors).parts, 8);
  EXPECT_EQ(1, choose_gemm_strided<float>({1, 16, 16, 8}, kMultiprocessors).parts);
}

TEST(GemmStridedPolicy, TurnsOperandsOverWhereThatIsALittleOfTheWhole) {
  const auto turns = [](int64_t m, int64_t n, int64_t k) {
    const GemmStridedSize size{1, m, n, k};
    const GemmStridedTurns out(choose_gemm_strided<float>(size, kMultiprocessors), size);
    return std::pair(out.a, out.b);
  };
  EXPECT_EQ(turns(4096, 4096, 4096), std::pair(true, true));
  EXPECT_EQ(turns(1024, 8192, 4096), std::pair(true, false));
  EXPECT_EQ(turns(8192, 512, 4096), std::pair(false, true));
  EXPECT_EQ(turns(16384, 4096, 8192), std::pair(false, true));  // the one has 512 MiB
  EXPECT_EQ(turns(1024, 1024, 1024), std::pair(false, false));
  EXPECT_EQ(turns(128, 4096, 4096), std::pair(false, false));
}

}  // namespace
}  // namespace tw::kernels

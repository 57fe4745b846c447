#include "tilewright/kernels/gemm_int8_policy_sm90.h"

#include <gtest/gtest.h>

#include "tests/unit/kernels/hopper.h"

namespace tw::kernels {
namespace {

TEST(GemmInt8PolicySm90, ProductsTakeTheTileThatFillsItsWaves) {
  const auto columns = [](int64_t m, int64_t n, int64_t k) {
    return kGemmInt8Shapes[choose_gemm_int8_sm90({1, m, n, k, 1, 4}, kMultiprocessors)]
        .build.tile_n;
  };
  EXPECT_EQ(columns(16, 4096, 4096), 64);
  EXPECT_EQ(columns(4096, 4096, 4096), 256);  // 512 tiles in 3.9 waves, not 704 in 5.3
  EXPECT_EQ(columns(8192, 8192, 8192), 192);
}

}  // namespace
}  // namespace tw::kernels

// The scalings of rotary frequencies against transformers 5.23, whose ROPE_INIT_FUNCTIONS gave the
// numbers below; and what is no model's scaling.
#include "tilewright/ops/core/rope_tables.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "tilewright/core/error.h"

namespace tw::ops {
namespace {

constexpr RopeParameters parameters(RopeScalingKind scaling, double factor) {
  return {.dim = 16, .scaling = scaling, .factor = factor, .original_context = 64};
}

void expect_frequencies(const RopeParameters& p, const std::array<double, 8>& want) {
  const std::vector<double> got = rope_frequencies(p);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-7 * want[i]) << i;
}

TEST(RopeTables, Unscaled) {
  const std::vector<double> got = rope_frequencies(parameters(RopeScalingKind::kNone, 1));
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], std::pow(10, -0.5 * double(i)), 1e-15) << i;
}

TEST(RopeTables, Linear) {
  expect_frequencies(parameters(RopeScalingKind::kLinear, 4),
                     {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994, 0.000790569466,
                      0.000250000012, 7.90569466e-05});
}

// "dynamic" with factor 3 at twice the trained length: 3 * 2 - (3 - 1) = 4.
TEST(RopeTables, Ntk) {
  expect_frequencies(parameters(RopeScalingKind::kNtk, 4),
                     {1, 0.259412825, 0.0672950074, 0.017457189, 0.00452861842, 0.00117478159,
                      0.000304753397, 7.90569466e-05});
}

TEST(RopeTables, NtkOfOnePairHasNothingToScale) {
  RopeParameters p = parameters(RopeScalingKind::kNtk, 4);
  p.dim = 2;
  EXPECT_EQ(rope_frequencies(p), std::vector<double>{1});
}

TEST(RopeTables, Yarn) {
  RopeParameters p = parameters(RopeScalingKind::kYarn, 4);
  p.beta_fast = 4;
  p.beta_slow = 0.5;
  expect_frequencies(p, {1, 0.237170815, 0.049999997, 0.00790569466, 0.00249999994, 0.000790569466,
                         0.000250000012, 7.90569466e-05});
  EXPECT_NEAR(rope_attention_factor(p), 1.138629436111989, 1e-15);
}

TEST(RopeTables, Llama31) {
  expect_frequencies(parameters(RopeScalingKind::kLlama31, 8),
                     {1, 0.244384587, 0.0130422562, 0.00395284733, 0.00124999997, 0.000395284733,
                      0.000125000006, 3.95284733e-05});
}

TEST(RopeTables, DivisorsComeOnTop) {
  const std::array<float, 2> divisors{2, 4};
  RopeParameters p{.dim = 4, .base = 100, .frequency_divisors = divisors};
  EXPECT_EQ(rope_frequencies(p), (std::vector<double>{0.5, 0.1 / 4}));
  p.dim = 6;
  EXPECT_THROW(rope_frequencies(p), Error);
}

TEST(RopeTables, WrongParametersAreRefused) {
  for (const RopeParameters& p :
       {RopeParameters{.dim = 3}, RopeParameters{.dim = -2}, RopeParameters{.dim = 4, .base = 0},
        RopeParameters{.dim = 4, .factor = -1}, RopeParameters{.dim = 4, .base = NAN},
        RopeParameters{.dim = 4, .scaling = RopeScalingKind::kYarn},
        RopeParameters{.dim = 4, .scaling = RopeScalingKind::kLlama31}})
    EXPECT_THROW(rope_frequencies(p), Error);
  EXPECT_TRUE(rope_frequencies({}).empty());
}

}  // namespace
}  // namespace tw::ops

#include "testing/random.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace tw::testing {
namespace {

/// Kolmogorov and Smirnov: of a million true normal numbers, one seed in 10^7 is farther away. What
/// layers hold beyond their rectangles shows in the fourth moment, whose standard error is 0.01.
TEST(Random, NormalNumbersAreNormal) {
  constexpr int kCount = 1 << 20;
  constexpr double kFar = 2.9;
  Random random(1);
  std::vector<double> drawn(kCount);
  for (double& x : drawn) x = random.normal();
  std::sort(drawn.begin(), drawn.end());
  double distance = 0;
  for (int i = 0; i < kCount; ++i) {
    const double below = std::erfc(-drawn[size_t(i)] / std::sqrt(2.0)) / 2 * kCount;
    distance = std::max({distance, std::abs(below - i), std::abs(below - i - 1)});
  }
  EXPECT_LT(distance / std::sqrt(kCount), kFar);
  double fourth = 0;
  for (const double x : drawn) fourth += x * x * x * x / kCount;
  EXPECT_NEAR(fourth, 3, 0.05);
}

/// The tail has a way of its own: 575.6 of a million are beyond it, give or take 24.
TEST(Random, TailsHaveTheirShare) {
  constexpr int kCount = 1'000'000;
  Random random(2);
  int beyond = 0, above = 0;
  double farthest = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal();
    if (std::abs(x) <= Ziggurat::kTail) continue;
    ++beyond, above += x > 0;
    farthest = std::max(farthest, std::abs(x));
  }
  EXPECT_NEAR(beyond, 575.6, 120);
  EXPECT_NEAR(above, beyond / 2.0, 60);
  EXPECT_GT(farthest, 4.2);
}

}  // namespace
}  // namespace tw::testing

// Softmax, its logarithm and their gradients on Hopper: the device's text beside sums
// in double precision.
#include <algorithm>
#include <cmath>

#include "tests/lanes/norm_call.h"
#include "tilewright/kernels/softmax_rows_sm90.h"

namespace tw::kernels {
namespace {

/// Softmax and its logarithm, and their gradients, of which x is the gradient of the output.
template <class T, NormWay kWay, bool kIsLog>
void expect_softmax(int rows, int cols) {
  const Sizes sizes{rows, cols, 0, {}};
  Call<T> forward(sizes, 0.3F), backward(sizes, 0.3F);
  for (T& x : forward.x) x = T(float(x) * 20 - 100);
  forward.template run_rows<SoftmaxSm90<T, kIsLog>, kWay>();
  for (T& y : backward.residual) y = T(-std::abs(float(y)));
  backward.template run_rows<SoftmaxBackwardSm90<T, kIsLog>, kWay>();
  for (int r = 0; r < rows; ++r) {
    const auto at = [&](const std::vector<T>& from, int c) {
      return double(float(from[size_t(r * cols + c)]));
    };
    double high = -INFINITY, total = 0, grads = 0;
    for (int c = 0; c < cols; ++c) high = std::max(high, at(forward.x, c));
    for (int c = 0; c < cols; ++c) total += std::exp(at(forward.x, c) - high);
    for (int c = 0; c < cols; ++c)
      grads += at(backward.x, c) * (kIsLog ? 1 : at(backward.residual, c));
    for (int c = 0; c < cols; ++c) {
      const std::string what = "row " + std::to_string(r) + ", column " + std::to_string(c);
      const double below = at(forward.x, c) - high, y = at(backward.residual, c);
      expect_near<T>(at(forward.out, c), kIsLog ? below - std::log(total) : std::exp(below) / total,
                     0.1, what);
      const double g = at(backward.x, c);
      expect_near<T>(at(backward.out, c), kIsLog ? g - std::exp(y) * grads : y * (g - grads),
                     std::abs(grads), what);
    }
  }
}

TEST(SoftmaxSm90, FewRows) {
  expect_softmax<float, NormWay::kFewShort, false>(1, 396);
  expect_softmax<bf16, NormWay::kFewShort, true>(2, 520);
  expect_softmax<float, NormWay::kFew, true>(3, 532);
  expect_softmax<bf16, NormWay::kFew, false>(1, 1544);
}

TEST(SoftmaxSm90, ManyRows) {
  expect_softmax<float, NormWay::kMany, true>(3, 532);
  expect_softmax<bf16, NormWay::kMany, false>(9, 1000);
  expect_softmax<float, NormWay::kManyLong, false>(2, 1052);
  expect_softmax<bf16, NormWay::kManyLong, true>(1, 2568);
}

TEST(SoftmaxSm90, WhatIsInfinite) {
  Call<float> call({4, 300, 0, {}}, 0.3F);
  float* const rows = call.x.data();
  std::fill(rows, rows + 256, -INFINITY);  // two warps know of none
  std::fill(rows + 300, rows + 600, -INFINITY);
  rows[700] = INFINITY, rows[1000] = NAN;
  call.run_rows<SoftmaxSm90<float>, NormWay::kFewShort>();
  EXPECT_EQ(call.out[255], 0);
  double sum = 0;
  for (int c = 0; c < 300; ++c) sum += double(call.out[size_t(c)]);
  EXPECT_NEAR(sum, 1, 1e-5);
  for (size_t c = 300; c < 1200; ++c) ASSERT_TRUE(std::isnan(call.out[c])) << c;
}

}  // namespace
}  // namespace tw::kernels

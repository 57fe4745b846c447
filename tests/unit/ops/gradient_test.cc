// The grammar of gradients. Rules that do not fit their operators stop the compiler, in
// runtime/operators.cc; what a rule means is tested against PyTorch.
#include "tilewright/ops/core/gradient.h"

#include <gtest/gtest.h>

namespace tw::ops {
namespace {

TEST(Gradient, StepsValuesAndResults) {
  static constexpr Gradient kRule{
      "where flag=none, extra=absent: f(grad=out.grad.matrix.T, x, y=x.shape, inverse=!inverse, "
      "n=-2, dims=dims.inverse) -> x.grad, half; half -> y.grad"};
  ASSERT_EQ(kRule.condition_count, 2);
  EXPECT_EQ(kRule.conditions[1].name, "extra");
  EXPECT_EQ(kRule.conditions[1].value, "absent");
  ASSERT_EQ(kRule.step_count, 2);
  const Gradient::Step& call = kRule.steps[0];
  EXPECT_EQ(call.op, "f");
  ASSERT_EQ(call.input_count, 6);
  EXPECT_EQ(call.inputs[0].parameter, "grad");
  EXPECT_EQ(call.inputs[0].name, "out");
  EXPECT_TRUE(call.inputs[0].is_grad && call.inputs[0].is_matrix && call.inputs[0].is_transposed);
  EXPECT_EQ(call.inputs[1].name, "x");
  EXPECT_TRUE(call.inputs[2].is_shape && !call.inputs[2].is_grad);
  EXPECT_TRUE(call.inputs[3].is_negated);
  EXPECT_EQ(call.inputs[4].number, "-2");
  EXPECT_TRUE(call.inputs[5].is_inverse && call.inputs[5].name == "dims");
  ASSERT_EQ(call.result_count, 2);
  EXPECT_TRUE(call.results[0].is_grad && !call.results[1].is_grad);
  EXPECT_EQ(kRule.steps[1].op, "");
  EXPECT_EQ(kRule.steps[1].inputs[0].name, "half");
}

}  // namespace
}  // namespace tw::ops

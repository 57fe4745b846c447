// What a comparison with the definition cannot show: softmax and its relatives at the edges of the
// number range, over very long rows and over dimensions other than the last.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/core/tensor.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/operators.h"

namespace tw {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor tensor_of(const std::vector<float>& values, std::vector<int64_t> shape) {
  const Tensor out = Tensor::empty(shape, DType::kF32);
  std::copy(values.begin(), values.end(), out.span<float>().begin());
  return out;
}

Tensor run(const char* op, const Tensor& x, std::vector<int64_t> shape, DType dtype,
           double dim = -1) {
  const Tensor out = Tensor::empty(shape, dtype);
  const runtime::OperatorInfo& info = runtime::find_operator(op);
  ops::Call call(*info.schema);
  call.set("x", x.ref()).set("dim", dim).set("out", out.ref());
  runtime::Context context;
  info.run(call, context);
  return out;
}

std::vector<float> softmax(const std::vector<float>& row) {
  const Tensor out =
      run("softmax", tensor_of(row, {int64_t(row.size())}), {int64_t(row.size())}, DType::kF32);
  return {out.span<float>().begin(), out.span<float>().end()};
}

int64_t argmax(const std::vector<float>& row) {
  return run("argmax", tensor_of(row, {int64_t(row.size())}), {}, DType::kI64).span<int64_t>()[0];
}

TEST(Softmax, ShiftingARowChangesNothing) {
  testing::Random random(7);
  std::vector<float> row(9000), shifted;                           // three blocks
  for (float& v : row) v = float(int(random.below(64)) - 32) / 4;  // exact under the shift
  for (float v : row) shifted.push_back(v + 4096);
  EXPECT_EQ(softmax(row), softmax(shifted));
}

TEST(Softmax, RowsThatGrowBlockByBlock) {
  std::vector<float> row(3 * 4096, -1000);
  for (size_t i = 4096; i < 8192; ++i) row[i] = -kInf;  // a block of nothing between two others
  row[0] = 5;
  row[9000] = 45;
  const std::vector<float> out = softmax(row);
  EXPECT_EQ(out[9000], 1);
  EXPECT_NEAR(double(out[0]) / std::exp(-40.0), 1, 1e-6);
  EXPECT_EQ(out[5000], 0);
  std::vector<float> first_empty(2 * 4096, -kInf);
  first_empty[8000] = -3e38f;
  EXPECT_EQ(softmax(first_empty)[8000], 1);
}

TEST(Softmax, RowsWithoutAnAnswerAreNan) {
  for (const std::vector<float>& row :
       {std::vector<float>(5, -kInf), std::vector<float>{1, kInf, 2}, {1, kNan, 2, -kInf}})
    for (float v : softmax(row)) EXPECT_TRUE(std::isnan(v));
}

TEST(Softmax, AMillionColumnsSumToOne) {
  testing::Random random(3);
  std::vector<float> row(1 << 20);
  for (float& v : row) v = float(random.normal());
  double sum = 0;
  for (float v : softmax(row)) sum += double(v);
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST(Softmax, DimensionByNumber) {
  testing::Random random(5);
  std::vector<float> values(3 * 4 * 5);
  for (float& v : values) v = float(random.normal());
  const Tensor x = tensor_of(values, {3, 4, 5});
  for (int dim = -3; dim < 3; ++dim) {
    const Tensor out = run("softmax", x, {3, 4, 5}, DType::kF32, dim);
    const int d = (dim + 3) % 3;
    const int64_t step = d == 0 ? 20 : d == 1 ? 5 : 1, size = d + 3;
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t first = i - i / step % size * step;
      double sum = 0;
      for (int64_t k = 0; k < size; ++k) sum += std::exp(double(values[size_t(first + k * step)]));
      EXPECT_NEAR(out.span<float>()[size_t(i)], std::exp(double(values[size_t(i)])) / sum, 1e-6);
    }
  }
  EXPECT_THROW(run("softmax", x, {3, 4, 5}, DType::kF32, 3), Error);
  EXPECT_THROW(run("sum", x, {3, 4}, DType::kF32, -4), Error);
}

TEST(Sum, DimensionByNumber) {
  std::vector<float> values(24);
  for (size_t i = 0; i < 24; ++i) values[i] = float(i);
  const Tensor out = run("sum", tensor_of(values, {2, 3, 4}), {2, 4}, DType::kF32, 1);
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_EQ(out.span<float>()[size_t(i)], float(3 * (i / 4 * 12 + i % 4) + 12));
}

TEST(Argmax, TheFirstOfEquals) {
  std::vector<float> row(10000, 1);
  EXPECT_EQ(argmax(row), 0);
  row[4099] = row[9000] = 2;
  EXPECT_EQ(argmax(row), 4099);
  EXPECT_EQ(argmax({-kInf, -kInf}), 0);
  EXPECT_EQ(argmax({-0.0f, 0.0f}), 0);
}

TEST(Argmax, NanIsTheLargest) {
  std::vector<float> row(10000, 1);
  row[20] = kInf;
  row[5000] = row[5001] = row[9999] = kNan;
  EXPECT_EQ(argmax(row), 5000);
}

}  // namespace
}  // namespace tw

// Operators that reduce rows: one whose elements are not adjacent is added up in the order of one
// whose elements are, to the same bits.
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/core/tensor.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/operators.h"

namespace tw {
namespace {

constexpr int64_t kRows = 500, kStep = 2;

Tensor normal(std::vector<int64_t> shape, DType dtype) {
  testing::Random random(11);
  const Tensor values = Tensor::empty(shape, DType::kF32), out = Tensor::empty(shape, dtype);
  for (float& v : values.span<float>()) v = float(random.normal());
  if (dtype == DType::kF32) return values;
  const runtime::OperatorInfo& info = runtime::find_operator("type_as");
  const Tensor other = Tensor::empty({0}, dtype);
  ops::Call call(*info.schema);
  call.set("x", values.ref()).set("other", other.ref()).set("out", out.ref());
  runtime::Context context;
  info.run(call, context);
  return out;
}

/// The first columns of every row of t, `step` elements apart.
TensorRef columns(const Tensor& t, int64_t cols, int64_t step) {
  TensorRef ref = t.ref();
  ref.sizes[1] = cols;
  ref.strides[1] = step;
  return ref;
}

void call_rows(const char* op, const TensorRef& x, const Tensor& weight, const TensorRef& out,
               Isa isa) {
  const runtime::OperatorInfo& info = runtime::find_operator(op);
  ops::Call call(*info.schema);
  call.set("x", x).set("out", out);
  for (const ops::Arg& arg : *info.schema)
    if (arg.name == "weight") call.set("weight", weight.ref());
  runtime::Context context(runtime::default_pool(), isa);
  info.run(call, context);
}

void expect_same_bits(const char* op, DType dtype, int64_t cols, Isa isa) {
  const Tensor weight = normal({cols}, dtype), wide = normal({kRows, kStep * cols}, dtype);
  const Tensor x = Tensor::empty({kRows, cols}, dtype), out = Tensor::empty({kRows, cols}, dtype);
  const Tensor apart = Tensor::empty({kRows, kStep * cols}, dtype);
  const size_t bytes = size_t(element_size(dtype));
  const auto element = [&](const Tensor& t, int64_t i) {
    return static_cast<char*>(t.ref().data) + size_t(i) * bytes;
  };
  for (int64_t i = 0; i < kRows * cols; ++i)
    std::memcpy(element(x, i), element(wide, kStep * i), bytes);

  call_rows(op, x.ref(), weight, out.ref(), isa);
  call_rows(op, columns(wide, cols, kStep), weight, columns(apart, cols, kStep), isa);
  int64_t others = 0;
  for (int64_t i = 0; i < kRows * cols; ++i)
    others += std::memcmp(element(out, i), element(apart, kStep * i), bytes) != 0;
  EXPECT_EQ(others, 0) << "of " << kRows * cols;
}

TEST(StridedRows, HaveTheBitsOfAdjacentOnes) {
  for (const Isa isa : runtime::available_isas())
    for (const char* op : {"softmax", "log_softmax", "rms_norm", "layer_norm"})
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16})
        for (const int64_t cols : {45, 520, 1031, 4104}) {
          SCOPED_TRACE(std::string(op) + " " + std::string(name(dtype)) + " of " +
                       std::to_string(cols) + " columns");
          expect_same_bits(op, dtype, cols, isa);
        }
}

}  // namespace
}  // namespace tw

// permute, transpose and copy against plain index arithmetic: their definitions see dimensions that
// were already reordered.
#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/core/tensor.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/operators.h"

namespace tw {
namespace {

Tensor counted(std::vector<int64_t> shape) {
  const Tensor out = Tensor::empty(shape, DType::kI32);
  std::iota(out.span<int32_t>().begin(), out.span<int32_t>().end(), 0);
  return out;
}

/// Element i of `out` must be the element of the counted tensor of `shape` that `order` puts there.
void expect_permuted(const Tensor& out, const std::vector<int64_t>& shape,
                     const std::vector<int64_t>& order) {
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank, 1);
  for (size_t d = rank - 1; d-- > 0;) strides[d] = strides[d + 1] * shape[d + 1];
  const auto got = out.span<int32_t>();
  for (size_t i = 0; i < got.size(); ++i) {
    int64_t rest = int64_t(i), want = 0;
    for (size_t d = rank; d-- > 0;) {
      const auto from = size_t(order[d]);
      want += rest % shape[from] * strides[from];
      rest /= shape[from];
    }
    ASSERT_EQ(got[i], want) << "element " << i << " of " << out.ref().describe();
  }
}

void run(const char* op, ops::Call& call) {
  runtime::Context context;
  runtime::find_operator(op).run(call, context);
}

TEST(Permute, EveryOrderOfFourDimensions) {
  // The second has rows of whole cache lines, which are moved in the order of their source.
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 70, 5, 66}, std::vector<int64_t>{3, 7, 5, 64}}) {
    const Tensor x = counted(shape);
    std::vector<int64_t> order = {0, 1, 2, 3};
    do {
      std::vector<int64_t> out_shape;
      for (int64_t d : order) out_shape.push_back(shape[size_t(d)]);
      const Tensor dims = Tensor::empty({4}, DType::kI64),
                   out = Tensor::zeros(out_shape, DType::kI32);
      std::copy(order.begin(), order.end(), dims.span<int64_t>().begin());
      ops::Call call(*runtime::find_operator("permute").schema);
      call.set("x", x.ref()).set("dims", dims.ref()).set("out", out.ref());
      run("permute", call);
      expect_permuted(out, shape, order);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(Permute, RefusesWhatIsNoPermutation) {
  const Tensor x = counted({2, 3}), out = counted({3, 2});
  for (const std::vector<int64_t>& order :
       {std::vector<int64_t>{0, 0}, {0, 2}, {-1, 0}, {0}, {0, 1, 2}}) {
    const Tensor dims = Tensor::empty({int64_t(order.size())}, DType::kI64);
    std::copy(order.begin(), order.end(), dims.span<int64_t>().begin());
    ops::Call call(*runtime::find_operator("permute").schema);
    call.set("x", x.ref()).set("dims", dims.ref()).set("out", out.ref());
    EXPECT_THROW(run("permute", call), Error);
  }
}

TEST(Transpose, AnyTwoDimensions) {
  const std::vector<int64_t> shape = {33, 2, 67};
  const Tensor x = counted(shape);
  for (int64_t a = -3; a < 3; ++a)
    for (int64_t b = -3; b < 3; ++b) {
      std::vector<int64_t> order = {0, 1, 2}, out_shape = shape;
      std::swap(order[size_t(a + 3) % 3], order[size_t(b + 3) % 3]);
      std::swap(out_shape[size_t(a + 3) % 3], out_shape[size_t(b + 3) % 3]);
      const Tensor out = Tensor::zeros(out_shape, DType::kI32);
      ops::Call call(*runtime::find_operator("transpose").schema);
      call.set("x", x.ref()).set("dim0", double(a)).set("dim1", double(b)).set("out", out.ref());
      run("transpose", call);
      expect_permuted(out, shape, order);
    }
}

TEST(Copy, FromAndToColumnMajor) {
  const Tensor x = counted({65, 130}), out = Tensor::zeros({65, 130}, DType::kI32);
  TensorRef from = x.ref(), to = out.ref();
  for (TensorRef* tensor : {&from, &to}) {  // [130, 65], column after column
    std::swap(tensor->sizes[0], tensor->sizes[1]);
    std::swap(tensor->strides[0], tensor->strides[1]);
  }
  ops::Call call(*runtime::find_operator("copy").schema);
  call.set("x", from).set("out", to);
  run("copy", call);
  EXPECT_TRUE(std::ranges::equal(out.span<int32_t>(), x.span<int32_t>()));
}

}  // namespace
}  // namespace tw

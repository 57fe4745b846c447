// Operators over one dimension given by its number: the dimension is moved into the last place
// before the schema is applied, so that kernels see rows of it whatever its strides are.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tilewright/ops/core/call.h"

namespace tw::ops {

/// The dimension that argument `name` names, counted from the end when negative. Throws
/// kInvalidArgument when `tensor` has no such dimension.
inline int dimension_of(const Call& call, std::string_view name, int64_t fallback,
                        const TensorRef& tensor) {
  int64_t dim = fallback;
  for (int i = 0; i < call.schema().size(); ++i)
    if (call.schema()[i].name == name && call[i].present) dim = call[i].integer;
  const int64_t resolved = dim < 0 ? dim + tensor.rank : dim;
  if (resolved < 0 || resolved >= tensor.rank)
    throw Error(ErrorKind::kInvalidArgument, std::string(call.schema().name()) + ": " +
                                                 std::string(name) + " = " + std::to_string(dim) +
                                                 " is not a dimension of " + tensor.describe());
  return static_cast<int>(resolved);
}

/// Dimension `dim` becomes the last one; the others keep their order.
inline void move_last(TensorRef& tensor, int dim) {
  for (auto* values : {&tensor.sizes, &tensor.strides})
    std::rotate(values->begin() + dim, values->begin() + dim + 1, values->begin() + tensor.rank);
}

/// What operators over `dim: i64 = -1` share, which they keep: of the tensor of argument kLeader,
/// and of every other one of the same rank.
template <int kLeader = 0>
struct AlongDim {
  static void rearrange(Call& call) {
    const TensorRef& x = call[kLeader].tensor;
    if (!call[kLeader].present || x.rank == 0) return;
    const int dim = dimension_of(call, "dim", -1, x), rank = x.rank;
    for (int i = 0; i < call.schema().size(); ++i)
      if (call.schema()[i].kind == ArgKind::kTensor && call[i].present &&
          call[i].tensor.rank == rank)
        move_last(call[i].tensor, dim);
  }
  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings&) {
    const TensorRef& x = call[kLeader].tensor;
    dimension_of(call, "dim", -1, x);
    return {std::vector<int64_t>(x.shape().begin(), x.shape().end())};
  }
};

/// The same of reductions, all of whose results are without it.
template <int kResults = 1>
struct ReducedDim : AlongDim<> {
  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings&) {
    const TensorRef& x = call[0].tensor;
    std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
    shape.erase(shape.begin() + dimension_of(call, "dim", -1, x));
    return std::vector<std::vector<int64_t>>(kResults, shape);
  }
};

}  // namespace tw::ops

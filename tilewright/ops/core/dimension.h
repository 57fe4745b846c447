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

/// rearrange() of operators that have `dim: i64 = -1`: moves it last in the tensor of argument
/// `leader`, and in every other tensor of the same rank.
inline void rearrange_dim(Call& call, int leader = 0) {
  const TensorRef& x = call[leader].tensor;
  if (!call[leader].present || x.rank == 0) return;
  const int dim = dimension_of(call, "dim", -1, x), rank = x.rank;
  for (int i = 0; i < call.schema().size(); ++i)
    if (call.schema()[i].kind == ArgKind::kTensor && call[i].present && call[i].tensor.rank == rank)
      move_last(call[i].tensor, dim);
}

/// The shape of argument `leader`, whose dimension `dim` is one: infer() of operators along a
/// dimension that keep it.
inline std::vector<int64_t> shape_along_dim(const Call& call, int leader = 0) {
  const TensorRef& x = call[leader].tensor;
  dimension_of(call, "dim", -1, x);
  return {x.shape().begin(), x.shape().end()};
}

/// x's shape without its dimension `dim`: infer() of reductions.
inline std::vector<int64_t> shape_without_dim(const Call& call) {
  const TensorRef& x = call[0].tensor;
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  shape.erase(shape.begin() + dimension_of(call, "dim", -1, x));
  return shape;
}

}  // namespace tw::ops

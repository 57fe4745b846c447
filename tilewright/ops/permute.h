#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/permute.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/random.h"
#include "tilewright/ops/core/relayout.h"

namespace tw::ops {

/// A new tensor whose dimension d is dimension dims[d] of x. `out` may not overlap `x`. Throws
/// kInvalidArgument unless dims holds each of 0 .. R - 1 once, R the rank of x.
struct Permute : RelayoutOperator {
  static constexpr Schema kSchema{"permute(x: T[...], dims: i64[R]) -> out: T[...]"};
  static constexpr Gradient kGradient{"permute(x=out.grad, dims=dims.inverse) -> x.grad"};
  static constexpr bool kInPlace = false;

  template <class T>
  using Kernel = kernels::Permute<bits_of<T>>;

  static void rearrange(Call& call) {
    TensorRef& x = call[0].tensor;
    const TensorRef& dims = call[1].tensor;
    if (!call[0].present || !call[1].present || dims.rank != 1 || dims.dtype != DType::kI64 ||
        dims.data == nullptr)
      return;
    if (dims.sizes[0] != x.rank)
      throw Error(ErrorKind::kInvalidArgument, "permute: dims holds " +
                                                   std::to_string(dims.sizes[0]) +
                                                   " numbers, but x is " + x.describe());
    const TensorRef original = x;
    unsigned seen = 0;
    for (int d = 0; d < x.rank; ++d) {
      const int64_t from = static_cast<const int64_t*>(dims.data)[d * dims.strides[0]];
      if (from < 0 || from >= x.rank || (seen >> from & 1u) != 0)
        throw Error(ErrorKind::kInvalidArgument, "permute: dims[" + std::to_string(d) +
                                                     "] = " + std::to_string(from) +
                                                     ", but dims must hold each of 0 .. " +
                                                     std::to_string(x.rank - 1) + " once");
      seen |= 1u << from;
      x.sizes[static_cast<size_t>(d)] = original.sizes[static_cast<size_t>(from)];
      x.strides[static_cast<size_t>(d)] = original.strides[static_cast<size_t>(from)];
    }
  }
  static std::vector<std::vector<int64_t>> infer(Call call, const Bindings&) {
    rearrange(call);
    return {std::vector<int64_t>(call[0].tensor.shape().begin(), call[0].tensor.shape().end())};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "dims") return std::nullopt;
    Tensor out = Tensor::empty({known["R"]}, DType::kI64);
    const auto dims = out.span<int64_t>();
    for (size_t d = 0; d < dims.size(); ++d) {
      dims[d] = static_cast<int64_t>(d);
      std::swap(dims[d], dims[size_t(random_below(seed, int64_t(d) + 1))]);
    }
    return out;
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0,2] R=3"},
                                        {"one dimension", "x=[45] R=1"},
                                        {"two dimensions", "x=[37,75] R=2"},
                                        {"three dimensions", "x=[18,33,9] R=3"},
                                        {"four dimensions", "x=[5,16,9,34] R=4"},
                                        {"five dimensions", "x=[2,8,3,7,17] R=5"},
                                        {"small dimensions", "x=[3,5,2,7,3,4] R=6"},
                                        {"even dimensions", "x=[16,8,4,2,32] R=5"},
                                        {"many short rows", "x=[90,103,16] R=3"}};
  static constexpr Case kWorkloads[] = {{"heads", "x=[1,2048,32,128] R=4"},
                                        {"64 MiB", "x=[256,256,256] R=3"}};
};

}  // namespace tw::ops

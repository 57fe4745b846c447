#pragma once

#include <utility>
#include <vector>

#include "tilewright/kernels/transpose.h"
#include "tilewright/ops/core/dimension.h"
#include "tilewright/ops/core/relayout.h"

namespace tw::ops {

/// A new tensor with dimensions dim0 and dim1 of x exchanged. `out` may not overlap `x`.
struct Transpose : RelayoutOperator {
  static constexpr Schema kSchema{
      "transpose(x: T[...], dim0: i64 = -2, dim1: i64 = -1) -> out: T[...]"};
  static constexpr Gradient kGradient{"transpose(x=out.grad, dim0, dim1) -> x.grad"};
  static constexpr bool kInPlace = false;

  template <class T>
  using Kernel = kernels::Transpose<bits_of<T>>;

  static void rearrange(Call& call) {
    TensorRef& x = call[0].tensor;
    if (!call[0].present) return;
    const auto a = static_cast<size_t>(dimension_of(call, "dim0", -2, x));
    const auto b = static_cast<size_t>(dimension_of(call, "dim1", -1, x));
    std::swap(x.sizes[a], x.sizes[b]);
    std::swap(x.strides[a], x.strides[b]);
  }
  static std::vector<std::vector<int64_t>> infer(Call call, const Bindings&) {
    rearrange(call);
    return {std::vector<int64_t>(call[0].tensor.shape().begin(), call[0].tensor.shape().end())};
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0]"},
                                        {"one element", "x=[1,1]"},
                                        {"below a tile", "x=[3,5]"},
                                        {"tiles and edges", "x=[37,75]"},
                                        {"blocks and edges", "x=[70,131]"},
                                        {"batched", "x=[2,3,33,17]"},
                                        {"outer dimensions", "x=[5,3,40] dim0=0 dim1=1"},
                                        {"rows of whole lines", "x=[5,3,128] dim0=0 dim1=1"},
                                        {"first and last", "x=[19,3,40] dim0=0 dim1=-1"},
                                        {"aligned blocks and edges", "x=[144,208]"},
                                        {"two columns", "x=[2500,2]"},
                                        {"seven rows", "x=[7,1001]"},
                                        {"columns of images", "x=[2,601,3] dim0=1 dim1=2"},
                                        {"short rows", "x=[21,34,3] dim0=0 dim1=1"},
                                        {"rows of pairs", "x=[9,35,6] dim0=0 dim1=1"},
                                        {"rows of half words", "x=[7,35,12] dim0=0 dim1=1"},
                                        {"rows of words", "x=[21,34,8] dim0=0 dim1=1"},
                                        {"the same dimension", "x=[5,40] dim0=1"}};
  static constexpr Case kWorkloads[] = {{"heads", "x=[1,2048,32,128] dim0=1 dim1=2"},
                                        {"llama-3.1-8b/weight", "x=[4096,14336]"},
                                        {"64 MiB", "x=[4096,4096]"}};
};

}  // namespace tw::ops

// What calls of scaled products on Hopper have in common: their operands, what TMA and the tensor
// cores ask of them, and how their scales are counted. Plain host code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tilewright/core/error.h"
#include "tilewright/kernels/gemm_scaled_build_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/jit.h"

namespace tw::runtime::cuda {

/// Kernel aggregates with a, b, their scales and the sizes of blocks.
template <class K>
struct ScaledOperands {
  static constexpr int64_t kBlock = 128;  // values of k in a stage
  using Q = std::remove_pointer_t<decltype(K::a.data)>;
  const K& call;

  GemmOperand<Q> rows() const { return as_operand(call.a); }
  /// [group, n, k]
  GemmOperand<Q> weight() const {
    const auto& b = call.b;
    return {b.data, b.size(1), b.size(2), b.stride(1), b.stride(2), b.stride(0), b.size(0)};
  }
  int k_blocks() const { return int((call.a.size(1) + kBlock - 1) / kBlock); }
  bool has_one_scale() const { return call.block_k >= call.a.size(1); }
  int k_blocks_per_scale() const {
    return has_one_scale() ? k_blocks() : int(call.block_k / kBlock);
  }
  int64_t columns_per_scale() const { return std::min(call.block_n, call.b.size(1)); }

  Support supports(int device) const {
    constexpr int64_t kMost = (int64_t{1} << 31) - 512;  // coordinates reach a tile beyond
    if (Support s = supports_hopper(gpu(device)); !s) return s;
    const GemmOperand<Q> left = rows(), right = weight();
    if (left.rows == 0 || left.columns == 0 || right.rows == 0 || right.batch == 0)
      return Support::no("an empty operand");
    if (left.rows > kMost || left.columns > kMost || right.rows > kMost || right.batch > kMost)
      return Support::no("a size beyond 2^31");
    if (!left.is_tma_legal() || !right.is_tma_legal())
      return Support::no("rows of a or b that start at no multiple of 16 bytes");
    if (call.out.stride(1) != 1 && call.out.size(1) > 1) return Support::no("columns of out apart");
    if (call.block_k % kBlock != 0 && !has_one_scale())
      return Support::no("block_k that is no multiple of 128");
    if (call.block_n % kernels::ScaledGemmBuild::kSpan != 0 && call.block_n < right.rows)
      return Support::no("block_n that is no multiple of 64");
    return Support::yes();
  }
};
template <class K>
ScaledOperands(const K&) -> ScaledOperands<K>;

}  // namespace tw::runtime::cuda

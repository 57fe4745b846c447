// The builds of the Hopper matrix multiplication that the library carries, numbered. Neutral.
#pragma once

#include "tilewright/kernels/gemm_policy_sm90.h"

namespace tw::kernels {

/// One build per shape of the policy and per slot: four layouts of a plain product, then a linear
/// layer with each Activation, whose operands have k innermost.
struct GemmVariant {
  static constexpr int kLayouts = 4, kActivations = 5, kSlots = kLayouts + kActivations;
  static constexpr int kCount = kGemmShapeCount * kSlots;
  int shape, slot;

  static constexpr GemmVariant at(int index) { return {index / kSlots, index % kSlots}; }
  static constexpr GemmVariant plain(int shape, bool transposed_a, bool transposed_b) {
    return {shape, int(transposed_a) + 2 * int(transposed_b)};
  }
  static constexpr GemmVariant linear(int shape, int activation) {
    return {shape, kLayouts + activation};
  }
  constexpr int index() const { return shape * kSlots + slot; }
  constexpr bool is_linear() const { return slot >= kLayouts; }
  constexpr int activation() const { return slot - kLayouts; }

  constexpr GemmBuild build() const {
    GemmBuild out = kGemmShapes[shape].build;
    out.transposed_a = !is_linear() && (slot & 1) != 0;
    out.transposed_b = !is_linear() && (slot & 2) != 0;
    return out;
  }
  /// With transposed_out, b is the smaller operand: it is copied where k is not innermost.
  constexpr bool exists(int element_bytes) const {
    const GemmBuild made = build();
    if (!gemm_takes(kGemmShapes[shape], element_bytes)) return false;
    if (element_bytes == kTf32Bytes) return !made.transposed_a && !made.transposed_b;
    return !(made.transposed_out && made.transposed_b);
  }
};

/// The build whose batches are groups of one k: of gradients, whose operands have the rows of a
/// token along memory.
inline constexpr GemmBuild kGemmKGrouped{.tile_m = 128,
                                         .tile_n = 256,
                                         .stages = 4,
                                         .staging = 16384,
                                         .transposed_a = true,
                                         .transposed_b = true,
                                         .grouped_k = true};

}  // namespace tw::kernels

#pragma once

#include "tilewright/ops/core/binary.h"

namespace tw::ops {

/// And, or, exclusive or of the bits of two integers, with NumPy broadcasting. `out` may alias an
/// input of its own shape.
struct Bitwise : BinaryOperator<Bitwise, kernels::BitwiseFunctions> {
  static constexpr Schema kSchema{
      "bitwise(x: T[...], other: T[...], function: and|or|xor) -> out: T[...]"};
  using Types = Combos<Combo<int32_t>, Combo<int64_t>>;

  static int64_t define(int function, int64_t x, int64_t y) {
    return function == 0 ? x & y : function == 1 ? x | y : x ^ y;
  }

  static constexpr Case kEdgeCases[] = {{"empty", "x=[3,0] other=[3,0] function=and"},
                                        {"and", "x=[3,45] other=[3,45] function=and"},
                                        {"or", "x=[3,45] other=[45] function=or"},
                                        {"exclusive or", "x=[20001] other=[1] function=xor"}};
  static constexpr Case kWorkloads[] = {{"64 MiB", "x=[4096,4096] other=[4096,4096] function=and"}};
};

}  // namespace tw::ops

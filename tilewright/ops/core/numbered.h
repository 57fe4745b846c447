// What operators share whose integers number things of which some are elsewhere: -1.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/error.h"
#include "tilewright/core/tensor.h"
#include "tilewright/ops/core/random.h"

namespace tw::ops {

/// Whether each of `numbers`, rows and columns, is -1 or one of the first `count` of `things`.
template <class Numbers>
Support supports_numbers(std::string_view name, const Numbers& numbers, int64_t count,
                         std::string_view things) {
  for (int64_t r = 0; r < numbers.size(0); ++r)
    for (int64_t c = 0; c < numbers.size(1); ++c)
      if (numbers(r, c) < -1 || numbers(r, c) >= count)
        return Support::no(std::string(name) + " " + std::to_string(numbers(r, c)) +
                           " is neither -1 nor one of the " + std::to_string(count) + " " +
                           std::string(things));
  return Support::yes();
}

/// Such numbers, all of `least` .. count - 1 alike.
inline Tensor random_numbers(const std::vector<int64_t>& shape, int64_t count, uint64_t seed,
                             int64_t least = -1) {
  Tensor out = Tensor::empty(shape, DType::kI32);
  const int64_t kinds = std::max<int64_t>(count - least, 1);
  for (int32_t& number : out.span<int32_t>())
    number = static_cast<int32_t>(random_below(seed, kinds) + least);
  return out;
}

}  // namespace tw::ops

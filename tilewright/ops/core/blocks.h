// A rule that operators with a scale for each block share.
#pragma once

#include <string>
#include <string_view>

#include "tilewright/core/error.h"

namespace tw::ops {

/// Whether `scales` is how many blocks of so many a dimension has.
inline Support supports_blocks(std::string_view name, std::string_view dim, int64_t size,
                               int64_t block, int64_t scales) {
  if (block < 1)
    return Support::no("blocks of " + std::to_string(block) + " along " + std::string(dim) +
                       ": at least 1 is needed");
  const int64_t wanted = size / block + (size % block != 0);
  if (scales != wanted)
    return Support::no(std::string(name) + " has " + std::to_string(scales) + " entries for " +
                       std::string(dim) + " = " + std::to_string(size) + ", but blocks of " +
                       std::to_string(block) + " are " + std::to_string(wanted));
  return Support::yes();
}

}  // namespace tw::ops

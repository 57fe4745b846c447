// The fence after non-temporal stores. Apart from memory.h, which needs an instruction set above
// the baseline that the rest of the library is compiled for.
#pragma once

#include "tilewright/core/macros.h"

namespace tw::tile {

/// Orders streamed stores before whatever publishes the result.
TW_INLINE void stream_fence() {
  __builtin_ia32_sfence();
}

}  // namespace tw::tile

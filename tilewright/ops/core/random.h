// Random numbers of test data, the same on every machine.
#pragma once

#include <cstdint>

namespace tw::ops {

/// Knuth's MMIX generator: what follows `state` becomes it. High bits are better than low ones.
constexpr uint64_t next_random(uint64_t& state) {
  return state = state * 6364136223846793005u + 1442695040888963407u;
}
/// One of 0 .. count - 1.
constexpr int64_t random_below(uint64_t& state, int64_t count) {
  return static_cast<int64_t>((next_random(state) >> 33) % static_cast<uint64_t>(count));
}

}  // namespace tw::ops

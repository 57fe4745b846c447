// Seeded data. The same seed gives the same numbers on every machine and compiler.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace tw::testing {

/// SplitMix64 (Steele, Lea & Flood 2014): one multiply-xorshift chain per draw.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  /// In [0, n).
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  /// Standard normal, by Box and Muller, who make two at a time.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace tw::testing

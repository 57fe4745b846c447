// Random numbers that depend on a seed alone: splitmix64, and normal numbers by the ziggurat of
// Marsaglia and Tsang (Journal of Statistical Software 5, 8, 2000) as Doornik improves it ("An
// Improved Ziggurat Method to Generate Normal Random Samples", 2005): most cost one multiplication.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace tw::testing {

/// Where the layers of equal area under exp(-x^2 / 2) end; the lowest one has the tail.
struct Ziggurat {
  static constexpr int kLayers = 128;
  static constexpr double kTail = 3.442619855899, kArea = 9.91256303526217e-3;

  std::array<double, kLayers + 1> end{};

  Ziggurat() {
    end[0] = kArea / density(kTail);
    end[1] = kTail;
    for (size_t i = 2; i < kLayers; ++i)
      end[i] = std::sqrt(-2 * std::log(kArea / end[i - 1] + density(end[i - 1])));
  }
  static double density(double x) { return std::exp(-x * x / 2); }
};
inline const Ziggurat kZiggurat;

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
  double uniform() { return unit(next()); }
  /// In [0, n).
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  /// Standard normal.
  double normal() {
    for (;;) {
      const uint64_t bits = next();
      const size_t layer = bits % Ziggurat::kLayers;  // of bits that unit() does not use
      const double x = (2 * unit(bits) - 1) * kZiggurat.end[layer];
      if (std::abs(x) < kZiggurat.end[layer + 1]) return x;
      if (layer == 0) return std::copysign(beyond_tail(), x);
      const double low = Ziggurat::density(kZiggurat.end[layer]);
      const double high = Ziggurat::density(kZiggurat.end[layer + 1]);
      if (low + uniform() * (high - low) < Ziggurat::density(x)) return x;
    }
  }

 private:
  static double unit(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }
  double beyond_tail() {
    for (;;) {
      const double x = -std::log(1 - uniform()) / Ziggurat::kTail;
      if (-2 * std::log(1 - uniform()) >= x * x) return Ziggurat::kTail + x;
    }
  }

  uint64_t state_;
};

}  // namespace tw::testing

// Quantiles of measured times, and how those are kept for `tilewright compare`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tw::cli {

/// The value of the nearest rank, q in [0, 1]; of two for q = 0.5, the upper one.
inline double quantile(std::vector<double> values, double q) {
  const double rank = q * double(values.size() - 1) + 0.5;
  const auto at = values.begin() + std::ptrdiff_t(rank);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// As many of the times as a file keeps of a row, in microseconds, evenly spread and in their
/// order.
inline std::vector<double> kept_samples(const std::vector<double>& seconds) {
  constexpr size_t kMost = 64;
  const size_t step = (seconds.size() + kMost - 1) / kMost;
  std::vector<double> out;
  for (size_t i = 0; i < seconds.size(); i += step)
    out.push_back(std::round(seconds[i] * 1e9) / 1e3);
  return out;
}

}  // namespace tw::cli

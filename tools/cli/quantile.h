// Quantiles of measured times.
#pragma once

#include <algorithm>
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

}  // namespace tw::cli

// What operators on groups of rows share: rules, definitions and test data.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "tilewright/core/error.h"
#include "tilewright/core/tensor.h"
#include "tilewright/kernels/row_groups.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/random.h"

namespace tw::ops {

/// Whether the groups follow each other within `rows` rows.
inline Support supports_groups(const kernels::RowGroups& groups, int64_t rows) {
  const auto refuse = [](std::string_view name, int64_t g, int64_t value, int64_t least,
                         int64_t most) {
    return Support::no(std::string(name) + "[" + std::to_string(g) +
                       "] = " + std::to_string(value) + " must be in " + std::to_string(least) +
                       " .. " + std::to_string(most));
  };
  for (int64_t g = 0; g < groups.count(); ++g) {
    const int64_t least = groups.floor(g), end = groups.end(g), begin = groups.begin(g);
    if (end < least || end > rows) return refuse("offsets", g, end, least, rows);
    if (begin < least || begin > end) return refuse("starts", g, begin, least, end);
  }
  return Support::yes();
}

/// Whether each number is that of a row of a.
inline Support supports_rows(const View<const int32_t, 1>& rows, int64_t count) {
  for (int64_t r = 0; r < rows.size(0); ++r)
    if (rows(r) < 0 || rows(r) >= count)
      return Support::no("rows[" + std::to_string(r) + "] = " + std::to_string(rows(r)) +
                         " is outside the " + std::to_string(count) + " rows of a");
  return Support::yes();
}

/// By definition: the group that has row r; as many as there are for none. Without offsets there is
/// one.
template <class K>
int64_t group_of(const K& k, int64_t r) {
  const int64_t count = k.b.size(0);
  if (!k.offsets) return 0;
  for (int64_t g = 0; g < count; ++g) {
    const int64_t before = g > 0 ? k.offsets(g - 1) : 0;
    if (r >= (k.starts ? k.starts(g) : before) && r < k.offsets(g)) return g;
  }
  return count;
}
/// By definition: row q of a times column n of group g's matrix; 0 where there is no such group.
template <class K>
double grouped_sum(const K& k, int64_t q, int64_t g, int64_t n) {
  double sum = 0;
  if (g < k.b.size(0))
    for (int64_t i = 0; i < k.a.size(1); ++i) sum += double(k.a(q, i)) * double(k.b(g, i, n));
  return sum;
}

/// Of a product of so many rows. Every matrix is read.
template <class K>
Cost grouped_cost(const K& k, int64_t rows) {
  const double m = double(rows), depth = double(k.a.size(1)), n = double(k.b.size(2));
  const double groups = double(k.b.size(0)), out = m * double(k.out.size(1));
  return {.flops = 2 * m * n * depth,
          .bytes = double(sizeof(k.out(0, 0))) * (m * depth + groups * n * depth + out)};
}

/// `offsets` and `starts` of `count` groups among so many rows: larger ones later, some of them
/// empty, with gaps where both are given.
inline std::optional<Tensor> materialize_groups(std::string_view arg, int64_t count, int64_t rows,
                                                uint64_t seed) {
  const bool ends = arg == "offsets";
  if (!ends && arg != "starts") return std::nullopt;
  Tensor out = Tensor::empty(std::vector<int64_t>{count}, DType::kI32);
  const auto edge = [&](int64_t twice) {  // of half a group
    return static_cast<int64_t>(static_cast<double>(rows) * static_cast<double>(twice * twice) /
                                static_cast<double>(4 * count * count));
  };
  for (int64_t g = 0; g < count; ++g) {
    const int64_t low = edge(2 * g + ends), high = edge(2 * g + 1 + ends);
    out.span<int32_t>()[static_cast<size_t>(g)] =
        static_cast<int32_t>(low + random_below(seed, high - low + 1));
  }
  return out;
}

}  // namespace tw::ops

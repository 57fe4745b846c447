// What grouped products that un-permute their rows share: rules and test data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/random.h"

namespace tw::ops {

struct Unpermuted {
  static std::vector<std::vector<int64_t>> infer(const Call&, const Bindings& known) {
    return {{infer_rows(known), known["N"]}};
  }

  template <class K>
  static Support supports_shapes(const K& k) {
    const int64_t m = k.a.size(0), rows = k.out.size(0), wanted = k.out_rows < 0 ? m : k.out_rows;
    if (rows != wanted)
      return Support::no("out has R = " + std::to_string(rows) +
                         " rows, but out_rows = " + std::to_string(k.out_rows) +
                         " of M = " + std::to_string(m) + " asks for " + std::to_string(wanted));
    if (!k.to_rows && rows != m && rows != 0)
      return Support::no("out has R = " + std::to_string(rows) + " rows, but a has M = " +
                         std::to_string(m) + ", and no to_rows are given");
    return Support::yes();
  }
  /// Whether each row of out is what exactly one row becomes.
  template <class K>
  static Support supports(const K& k) {
    if (!k.to_rows) return Support::yes();
    const int64_t count = k.out.size(0);
    std::vector<int64_t> from(static_cast<size_t>(count), -1);
    for (int64_t r = 0; r < k.to_rows.size(0); ++r) {
      const int64_t to = k.to_rows(r);
      if (to < 0 || to >= count) continue;
      int64_t& first = from[static_cast<size_t>(to)];
      if (first >= 0)
        return Support::no("to_rows[" + std::to_string(first) + "] and to_rows[" +
                           std::to_string(r) + "] are both " + std::to_string(to));
      first = r;
    }
    const auto none = std::find(from.begin(), from.end(), -1);
    if (none == from.end()) return Support::yes();
    return Support::no("none of to_rows is " + std::to_string(none - from.begin()) +
                       ", but out has R = " + std::to_string(count) + " rows");
  }
  /// Where row r goes; -1: nowhere.
  template <class K>
  static int64_t destination(const K& k, int64_t r) {
    const int64_t to = k.to_rows ? k.to_rows(r) : r;
    return to >= 0 && to < k.out.size(0) ? to : -1;
  }

  /// In any order, those that go nowhere among them: by turns -1 and behind the last.
  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           uint64_t seed) {
    if (arg != "to_rows") return std::nullopt;
    const int64_t m = known["M"], rows = infer_rows(known);
    std::vector<int32_t> order(static_cast<size_t>(m));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = m; i > 1; --i)
      std::swap(order[size_t(i - 1)], order[size_t(random_below(seed, i))]);
    for (int32_t& to : order)
      if (to >= rows) to = static_cast<int32_t>(to % 2 == 0 ? -1 : rows);
    Tensor out = Tensor::empty({m}, DType::kI32);
    std::copy(order.begin(), order.end(), out.span<int32_t>().begin());
    return out;
  }

 private:
  /// Test data asks before defaults are filled in.
  static int64_t infer_rows(const Bindings& known) {
    const Scalar* const asked = known.scalars.find("out_rows");
    return asked == nullptr || asked->integer < 0 ? known["M"] : asked->integer;
  }
};

}  // namespace tw::ops

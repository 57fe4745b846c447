// What operators on groups of rows of 8-bit operands with scales share: rules, the definition of a
// sum and test data.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tilewright/core/checked.h"
#include "tilewright/core/tensor.h"
#include "tilewright/ops/core/bind.h"
#include "tilewright/ops/core/blocks.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/groups.h"
#include "tilewright/ops/core/numbered.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/rows.h"
#if !defined(__CUDACC__)  // device code has the kernels alone
#include "tilewright/ops/embedding.h"
#endif

namespace tw::ops {

struct ScaledGroups {
  /// Hopper's tensor cores keep some 14 bits of a sum of e4m3 products.
  static constexpr double kGpuToleranceScale = 200;

  template <class K>
  static Support supports_shapes(const K& k) {
    if (!k.offsets && k.b.size(0) > 1)  // offsets of no group may have no data
      return Support::no("without offsets there is one group, but b has " +
                         std::to_string(k.b.size(0)) + " matrices");
    if (!k.offsets && k.starts && k.b.size(0) > 0)
      return Support::no("starts of groups are given, but no offsets where they end");
    if (Support s = supports_blocks("a_scale", "K", k.a.size(1), k.block_k, k.a_scale.size(1)); !s)
      return s;
    const std::string_view columns = k.b.size(1) == k.out.size(1) ? "N" : "2*N";
    return supports_blocks("b_scale", columns, k.b.size(1), k.block_n, k.b_scale.size(1));
  }
  template <class K>
  static Support supports(const K& k) {
    return supports_groups(k.groups(), k.scattered().count);
  }

  /// Row q of a times column n of group g's matrix.
  template <class K>
  static double define(const K& k, int64_t q, int64_t g, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < k.a.size(1); ++i)
      sum += double(k.a(q, i)) * double(k.a_scale(q, i / k.block_k)) * double(k.b(g, n, i)) *
             double(k.b_scale(g, n / k.block_n, i / k.block_k));
    return sum;
  }

  template <class K>
  static Cost cost(const K& k) {
    const double groups = double(k.b.size(0)), m = double(k.scattered().count),
                 n = double(k.b.size(1)), depth = double(k.a.size(1));
    const double out = double(k.out.size(0)) * double(k.out.size(1)) * double(sizeof(k.out(0, 0)));
    return {.flops = 2 * m * n * depth, .bytes = m * depth + groups * n * depth + out};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    const int64_t* const chosen = known.dims.find("R");
    if (arg == "rows") return random_numbers({known["R"]}, known["M"], seed, 0);
    return materialize_groups(arg, known["G"], chosen ? *chosen : known["M"], seed);
  }
};

/// The same of operators that may gather the rows of a.
struct GatheredScaledGroups : ScaledGroups {
  static std::vector<std::vector<int64_t>> infer(const Call&, const Bindings& known) {
    const int64_t* const chosen = known.dims.find("R");
    return {{chosen ? *chosen : known["M"], known["N"]}};
  }
  template <class K>
  static Support supports_shapes(const K& k) {
    if (!k.rows && k.a.size(0) != k.out.size(0) && k.out.size(0) != 0)
      return Support::no("a has M = " + std::to_string(k.a.size(0)) + " rows, but out has R = " +
                         std::to_string(k.out.size(0)) + ", and no rows are given");
    return ScaledGroups::supports_shapes(k);
  }
  template <class K>
  static Support supports(const K& k) {
    if (Support s = ScaledGroups::supports(k); !s || !k.rows) return s;
    return supports_rows(k.rows, k.a.size(0));
  }

#if !defined(__CUDACC__)
  /// A kernel for a GPU gathers rows as often as there are tiles of columns: rows of large groups,
  /// which are bound by their products, are gathered first, as those of int8 are.
  template <class Op, class K, class Launch, class Allocate>
  static void gather_on_gpu(const K& k, Launch&& launch, Allocate&& allocate) {
    constexpr bool kInLoad = std::is_same_v<decltype(k.a.data), const f8_e4m3fn*>;
    const int64_t m = k.out.size(0), groups = std::max<int64_t>(k.b.size(0), 1);
    if (!k.rows || (kInLoad && m <= 128 * groups) || !is_of_words(k.a))
      return launch.template operator()<Op>(k);
    const int64_t words = k.a.size(1) / 4, scales = k.a_scale.size(1);
    const auto memory = allocate(checked_mul(m * int64_t{sizeof(Word)}, words + scales));
    Word* const rows = static_cast<Word*>(memory.data());
    Word* const row_scales = rows + m * words;
    gather({reinterpret_cast<const Word*>(k.a.data), {k.a.size(0), words}, {k.a.stride(0) / 4, 1}},
           k.rows, rows, launch);
    gather({reinterpret_cast<const Word*>(k.a_scale.data),
            {k.a.size(0), scales},
            {k.a_scale.stride(0), k.a_scale.stride(1)}},
           k.rows, row_scales, launch);
    K product = k;
    product.a = view(reinterpret_cast<decltype(k.a.data)>(rows), m, k.a.size(1));
    product.a_scale = view(reinterpret_cast<const float*>(row_scales), m, scales);
    product.rows = {};
    launch.template operator()<Op>(product);
  }

 private:
  using Word = bits_of<float>;

  template <class Q>
  static bool is_of_words(const View<const Q, 2>& a) {
    return a.stride(1) == 1 && a.size(1) % 4 == 0 && a.stride(0) % 4 == 0 &&
           reinterpret_cast<uintptr_t>(a.data) % 4 == 0;
  }
  template <class Launch>
  static void gather(const View<const Word, 2>& from, const View<const int32_t, 1>& numbers,
                     Word* to, Launch&& launch) {
    const int64_t m = numbers.size(0);
    launch.template operator()<Embedding>(kernels::Embedding<Word, int32_t>{
        from, as_rows(View<const int32_t, 2>{numbers.data, {m, 1}, {numbers.stride(0), 1}}),
        tw::rows(to, m, from.size(1))});
  }
#endif
};

}  // namespace tw::ops

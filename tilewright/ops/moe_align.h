#pragma once

#include <optional>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/moe_align.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/numbered.h"
#include "tilewright/ops/core/operator.h"

namespace tw::ops {

/// Sorts entries by their expert, in order otherwise. Each expert's part of `order` has its
/// entries, then the number of all entries up to a multiple of block_size, and ends at its offset;
/// `positions` is the way back. An id of -1 stands for an expert elsewhere and has position -1.
struct MoeAlign {
  static constexpr Schema kSchema{
      "moe_align(ids: i32[*], experts: i64, block_size: i64 = 1) -> counts: i32[experts], "
      "offsets: i32[experts], order: i32[S], positions: i32[*]"};
  using Types = Combos<Combo<>>;

  template <class...>
  using Kernel = kernels::MoeAlign;

  /// The entries, and what fills the blocks up.
  static int64_t size_of_order(int64_t entries, int64_t experts, int64_t block) {
    const char* what = "moe_align: the size of order";
    return checked_add(entries, checked_mul(experts, block - 1, what), what);
  }

  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings& known) {
    const int64_t experts = known.integer("experts"), block = known.integer("block_size");
    if (experts < 0 || block < 1)
      throw Error(ErrorKind::kInvalidArgument,
                  "moe_align: experts = " + std::to_string(experts) +
                      " must be at least 0, block_size = " + std::to_string(block) + " at least 1");
    const TensorRef& ids = call[0].tensor;
    return {{experts},
            {experts},
            {size_of_order(ids.count(), experts, block)},
            std::vector<int64_t>(ids.shape().begin(), ids.shape().end())};
  }

  static Support supports_shapes(const kernels::MoeAlign& k) {
    if (k.block_size < 1)
      return Support::no("block_size = " + std::to_string(k.block_size) + " must be at least 1");
    const int64_t wanted = size_of_order(k.ids.rows, k.experts, k.block_size);
    if (k.order.size(0) == wanted) return Support::yes();
    return Support::no("order has S = " + std::to_string(k.order.size(0)) +
                       ", but the entries and what fills the blocks up are " +
                       std::to_string(wanted));
  }
  static Support supports(const kernels::MoeAlign& k) {
    return supports_numbers("id", k.ids, k.experts, "experts");
  }

  static void reference(const kernels::MoeAlign& k) {
    const int64_t n = k.ids.rows;
    int64_t at = 0;
    for (int64_t i = 0; i < n; ++i) k.positions(i, 0) = -1;
    for (int64_t s = 0; s < k.order.size(0); ++s) k.order(s) = int32_t(n);
    for (int64_t e = 0; e < k.experts; ++e) {
      const int64_t begin = at;
      for (int64_t i = 0; i < n; ++i) {
        if (k.ids(i, 0) != e) continue;
        k.order(at) = int32_t(i);
        k.positions(i, 0) = int32_t(at++);
      }
      k.counts(e) = int32_t(at - begin);
      while ((at - begin) % k.block_size != 0) ++at;
      k.offsets(e) = int32_t(at);
    }
  }

  static Cost cost(const kernels::MoeAlign& k) {
    return {.flops = 0, .bytes = 4.0 * (2 * double(k.ids.rows) + double(k.order.size(0)))};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType>, uint64_t seed) {
    if (arg != "ids") return std::nullopt;
    return random_numbers(known.lead, known.integer("experts"), seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no entries", "*=0 experts=4"},  {"no experts", "*=5 experts=0"},
      {"one entry", "*=1x1 experts=1"}, {"a token", "*=1x8 experts=64 block_size=4"},
      {"tight", "*=37x3 experts=9"},    {"blocks", "*=50x2 experts=7 block_size=16"},
      {"chunks", "*=8500x8 experts=9"}, {"blocks of chunks", "*=8500x8 experts=70 block_size=16"}};
  static constexpr Case kWorkloads[] = {
      {"qwen3-30b-a3b/prefill", "*=4096x8 experts=128"},
      {"deepseek-v3/blocks", "*=4096x8 experts=256 block_size=64"}};
};

}  // namespace tw::ops

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilewright/kernels/pack_weight.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/packed_weight.h"

namespace tw::ops {

/// A weight [N, K] as linear_packed reads it: a header of 64 bytes, then panels of 32 rows, the
/// same bytes on every machine. Packing pays when the weight is multiplied more than once.
struct PackWeight {
  static constexpr Schema kSchema{"pack_weight(weight: T[N, K]) -> packed: u8[P]"};
  static constexpr GpuKernels kGpu = GpuKernels::kNone;  // packed for a CPU's registers
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

  template <class T>
  using Kernel = kernels::PackWeight<T>;

  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings& known) {
    return {{packed_weight_bytes(known["N"], known["K"], call[0].tensor.dtype)}};
  }

  template <class T>
  static Support supports_shapes(const Kernel<T>& k) {
    const int64_t bytes = packed_weight_bytes(k.weight.size(0), k.weight.size(1), dtype_of<T>);
    if (k.packed.size(0) == bytes) return Support::yes();
    return Support::no("packed has " + std::to_string(k.packed.size(0)) +
                       " bytes, but the weight needs " + std::to_string(bytes));
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    using Layout = kernels::PanelLayout<T>;
    const int64_t n = k.weight.size(0), depth = k.weight.size(1), stride = Layout::stride(depth);
    const kernels::PanelHeader header = kernels::panel_header<T>(n, depth, k.packed.size(0));
    const auto put = [&](int64_t first, const void* value, int64_t bytes) {
      for (int64_t i = 0; i < bytes; ++i)
        k.packed(first + i) = static_cast<const uint8_t*>(value)[i];
    };
    for (int64_t i = 0; i < k.packed.size(0); ++i) k.packed(i) = 0;
    put(0, &header, sizeof header);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < depth; ++c) {
        const T value = k.weight(r, c);
        put(int64_t{sizeof header} + Layout::offset(r, c, stride) * int64_t{sizeof(T)}, &value,
            sizeof value);
      }
    }
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return {.flops = 0,
            .bytes = double(k.packed.size(0)) +
                     double(sizeof(T)) * double(k.weight.size(0)) * double(k.weight.size(1))};
  }

  static constexpr Case kEdgeCases[] = {
      {"no rows", "N=0 K=5"},     {"no columns", "N=7 K=0"}, {"one number", "N=1 K=1"},
      {"one panel", "N=32 K=64"}, {"odd", "N=33 K=7"},       {"several panels", "N=100 K=130"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/up", "N=14336 K=4096"}};
};

}  // namespace tw::ops

#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/kernels/linear_packed.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/linear_definition.h"
#include "tilewright/ops/core/packed_weight.h"
#include "tilewright/ops/core/random.h"

namespace tw::ops {

/// linear with a weight [N, K] packed by pack_weight, of the dtype of x.
/// `out` may alias `residual`. Throws kInvalidArgument for bytes that are no packed weight of these
/// sizes.
struct LinearPacked {
  static constexpr Schema kSchema{
      "linear_packed(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, "
      "activation: none|relu|gelu|gelu_tanh|silu = none) -> out: T[*, N]"};
  static constexpr GpuKernels kGpu = GpuKernels::kNone;  // packed for a CPU's registers
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  using Types = Combos<Combo<float>, Combo<f16>, Combo<bf16>>;

  template <class T>
  using Kernel = kernels::LinearPacked<T>;

  template <class T>
  static Support supports(const Kernel<T>& k) {
    if (k.packed.stride(0) != 1 && k.packed.size(0) > 1)
      return Support::no("packed must be contiguous, its stride is " +
                         std::to_string(k.packed.stride(0)));
    const PackedWeightCheck check = check_packed_weight(k.packed.data, k.packed.size(0));
    if (!check.reason.empty()) return Support::no(check.reason);
    const DType dtype = static_cast<DType>(check.header.dtype);
    if (dtype != dtype_of<T> || check.header.k != k.x.cols || check.header.n != k.out.cols)
      return Support::no("packed holds " + std::string(name(dtype)) + "[" +
                         std::to_string(check.header.n) + ", " + std::to_string(check.header.k) +
                         "], but x and out ask for " + std::string(name(dtype_of<T>)) + "[" +
                         std::to_string(k.out.cols) + ", " + std::to_string(k.x.cols) + "]");
    return Support::yes();
  }

  template <class T>
  static void reference(const Kernel<T>& k) {
    using Layout = kernels::PanelLayout<T>;
    const int64_t stride = Layout::stride(k.x.cols);
    const uint8_t* panels = k.packed.data + sizeof(kernels::PanelHeader);
    linear_reference(k, [&](int64_t n, int64_t i) {
      T value;
      const auto index = static_cast<size_t>(Layout::offset(n, i, stride));
      std::memcpy(&value, panels + sizeof(T) * index, sizeof(T));
      return double(value);
    });
  }

  template <class T>
  static Cost cost(const Kernel<T>& k) {
    return linear_cost(k, double(k.packed.size(0)), sizeof(T));
  }

  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings& bindings) {
    const TensorRef& packed = call[1].tensor;
    const PackedWeightCheck check =
        check_packed_weight(static_cast<const uint8_t*>(packed.data), packed.sizes[0]);
    if (!check.reason.empty())
      throw Error(ErrorKind::kInvalidArgument, "linear_packed: " + check.reason);
    std::vector<int64_t> shape = bindings.lead;
    shape.push_back(check.header.n);
    return {shape};
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg != "packed") return std::nullopt;
    const int64_t n = known["N"], k = known["K"];
    if (combo[0] == DType::kF16) return random_packed<f16>(n, k, seed);
    if (combo[0] == DType::kBf16) return random_packed<bf16>(n, k, seed);
    return random_packed<float>(n, k, seed);
  }

  static constexpr auto& kEdgeCases = kLinearEdgeCases;
  static constexpr auto& kWorkloads = kLinearWorkloads;

 private:
  /// Weights in [-1, 1), packed.
  template <class T>
  static Tensor random_packed(int64_t n, int64_t k, uint64_t seed) {
    const Tensor weight = Tensor::empty({n, k}, dtype_of<T>);
    for (T& w : weight.span<T>()) w = T(float(int64_t(next_random(seed) >> 40)) * 0x1p-23f - 1.0f);
    return pack_weight<T>(view<const T>(weight.span<T>().data(), n, k));
  }
};

}  // namespace tw::ops

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilewright/kernels/pack_quantized.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/packed_quantized.h"

namespace tw::ops {

/// A weight [N, K] in a block format of GGUF as linear_quantized reads it: a header of 64 bytes,
/// then panels of 16 rows, the same bytes on every machine. `blocks` are its rows as they lie in
/// the file; with `up`, they are a gate and `up` its factor, for silu_and_mul and
/// gelu_tanh_and_mul. No value changes.
struct PackQuantized {
  static constexpr Schema kSchema{
      "pack_quantized(blocks: u8[N, B], up: u8[N, B]?, "
      "format: q4_0|q4_1|q5_0|q5_1|q8_0|q2_k|q3_k|q4_k|q5_k|q6_k|iq4_nl|iq4_xs|mxfp4 = q4_0)"
      " -> packed: u8[P]"};
  static constexpr GpuKernels kGpu = GpuKernels::kNone;  // packed for a CPU's registers
  using Types = Combos<Combo<>>;

  template <class...>
  using Kernel = kernels::PackQuantized;

  static std::vector<std::vector<int64_t>> infer(const Call& call, const Bindings& known) {
    const DType dtype = dtype_of_choice(int(known.integer("format")));
    const Support whole = supports_rows(known["B"], dtype);
    if (!whole) throw Error(ErrorKind::kInvalidArgument, "pack_quantized: " + whole.reason());
    const bool is_gated = call[1].present;
    const int64_t k = known["B"] / info(dtype).block_bytes * info(dtype).block_elements;
    return {{packed_quantized_bytes(dtype, known["N"] * (is_gated ? 2 : 1), k, is_gated)}};
  }

  static Support supports_shapes(const kernels::PackQuantized& k) {
    if (Support s = supports_rows(k.blocks.size(1), k.dtype()); !s) return s;
    const int64_t bytes = packed_quantized_bytes(k.dtype(), k.rows(), k.k(), bool(k.up));
    if (k.packed.size(0) == bytes) return Support::yes();
    return Support::no("packed has " + std::to_string(k.packed.size(0)) +
                       " bytes, but the weight needs " + std::to_string(bytes));
  }

  static void reference(const kernels::PackQuantized& k) {
    const std::vector<uint8_t> blocks = bytes_of(k.blocks), up = bytes_of(k.up);
    const PackedQuantized packed =
        k.up ? pack_gated(k.dtype(), blocks.data(), up.data(), k.blocks.size(0), k.k())
             : pack_quantized(k.dtype(), blocks.data(), k.blocks.size(0), k.k());
    const auto* from = static_cast<const uint8_t*>(packed.bytes.ref().data);
    for (int64_t i = 0; i < k.packed.size(0); ++i) k.packed(i) = from[i];
  }

  static Cost cost(const kernels::PackQuantized& k) {
    const double rows = double(k.blocks.size(0)) * (k.up ? 2 : 1);
    return {.flops = 0, .bytes = double(k.packed.size(0)) + rows * double(k.blocks.size(1))};
  }

  static constexpr Case kEdgeCases[] = {{"no rows", "N=0 B=36"},
                                        {"no columns", "N=7 B=0 format=q5_0"},
                                        {"q4_0", "N=16 B=54"},
                                        {"q4_1, odd", "N=33 B=60 format=q4_1"},
                                        {"q5_0", "N=5 B=22 format=q5_0"},
                                        {"q5_1, gated", "N=17 B=48 +up format=q5_1"},
                                        {"q8_0", "N=18 B=102 format=q8_0"},
                                        {"q2_k", "N=16 B=168 format=q2_k"},
                                        {"q3_k", "N=3 B=110 format=q3_k"},
                                        {"q4_k, gated", "N=32 B=288 +up format=q4_k"},
                                        {"q5_k", "N=16 B=176 format=q5_k"},
                                        {"q6_k", "N=20 B=210 format=q6_k"},
                                        {"iq4_nl", "N=16 B=18 format=iq4_nl"},
                                        {"iq4_xs", "N=19 B=272 format=iq4_xs"},
                                        {"mxfp4", "N=16 B=85 format=mxfp4"}};
  static constexpr Case kWorkloads[] = {{"llama-3.1-8b/up, q4_0", "N=14336 B=2304"},
                                        {"llama-3.1-8b/up, q4_k", "N=14336 B=2304 format=q4_k"}};

 private:
  static DType dtype_of_choice(int format) { return DType(int(kFirstBlockDType) + format); }

  static Support supports_rows(int64_t bytes, DType dtype) {
    const int64_t block = info(dtype).block_bytes;
    if (bytes % block == 0) return Support::yes();
    return Support::no("blocks has rows of " + std::to_string(bytes) + " bytes, but " +
                       std::string(name(dtype)) + " comes in blocks of " + std::to_string(block));
  }

  static std::vector<uint8_t> bytes_of(const View<const uint8_t, 2>& view) {
    std::vector<uint8_t> out;
    if (!view) return out;
    for (int64_t r = 0; r < view.size(0); ++r)
      for (int64_t c = 0; c < view.size(1); ++c) out.push_back(view(r, c));
    return out;
  }
};

static_assert(
    [] {
      for (int i = int(kFirstBlockDType); i < kDTypeCount; ++i)
        if (choice_index(PackQuantized::kSchema[2].type, name(DType(i))) !=
            i - int(kFirstBlockDType))
          return false;
      return true;
    }(),
    "the choices are the block formats, in their order");

}  // namespace tw::ops

// Block-quantised weights as linear_quantized reads them: repacked once, at load, into panels of 16
// interleaved rows (kernels/linear_quantized_format.h). No value changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tilewright/core/dtype.h"
#include "tilewright/core/error.h"
#include "tilewright/core/tensor.h"
#include "tilewright/kernels/linear_quantized_format.h"

namespace tw::ops {

/// Consecutive rows of a weight in its block format: rows * k / block elements blocks, any
/// alignment.
struct BlockRows {
  const void* blocks;
  int64_t rows;
};

/// A weight [rows, k] of the block format `dtype`, packed. `bytes` is what the operator takes.
struct PackedQuantized {
  DType dtype = DType::kQ4_0;
  int64_t rows = 0, k = 0;  // rows counts both halves of a gated weight
  bool is_gated = false;
  Tensor bytes;  // u8[P]
};

/// Bytes of a packed weight [rows, k], `rows` counting both halves of a gated one. Throws
/// kInvalidArgument when they leave 64 bits.
TW_API int64_t packed_quantized_bytes(DType dtype, int64_t rows, int64_t k, bool is_gated);

/// Repacks a weight panel by panel, so that threads can share the work.
class TW_API QuantizedPacker {
 public:
  /// A weight whose rows are those of `parts`, one after the other. With `gated`, `parts` are two
  /// of equal rows, the gate and its factor, for the activations silu_and_mul and
  /// gelu_tanh_and_mul. The blocks must stay readable until the last pack(). The packed bytes come
  /// from `arena` if there is one. Throws kInvalidArgument when dtype is no block format, k no
  /// multiple of its elements (256 for the K formats) or a count negative.
  QuantizedPacker(DType dtype, std::span<const BlockRows> parts, int64_t k, bool gated = false,
                  Arena* arena = nullptr);

  int64_t panels() const { return panels_; }
  /// Packs the panels [begin, end). Calls for disjoint ranges may run at once.
  void pack(int64_t begin, int64_t end) const;
  /// The result, complete once every panel is packed.
  const PackedQuantized& packed() const { return packed_; }

 private:
  const uint8_t* row(int64_t panel, int64_t r) const;

  std::vector<BlockRows> parts_;
  int64_t row_bytes_ = 0, panels_ = 0;
  PackedQuantized packed_;
};

/// Packs a whole weight [rows, k]. Throws as QuantizedPacker does.
TW_API PackedQuantized pack_quantized(DType dtype, const void* blocks, int64_t rows, int64_t k);
/// Weights of one format and k stacked along their rows: q, k and v, say.
TW_API PackedQuantized pack_quantized(DType dtype, std::span<const BlockRows> parts, int64_t k);
/// A gate and its factor, both [rows, k].
TW_API PackedQuantized pack_gated(DType dtype, const void* gate, const void* up, int64_t rows,
                                  int64_t k);

/// The header of packed weights that came from anywhere; `reason` says what is wrong with them, if
/// anything is. Sizes are checked against the bytes there are.
struct PackedQuantizedCheck {
  kernels::QuantizedHeader header{};
  std::string reason;  // empty: valid
};
TW_API PackedQuantizedCheck check_packed_quantized(const uint8_t* data, int64_t bytes);

/// Row `row` of packed weights as float32 at out[0 .. k), exactly what dequantize gives for the
/// blocks that it was packed from. `data` must have passed check_packed_quantized.
TW_API void unpack_row(const uint8_t* data, int64_t row, float* out);

}  // namespace tw::ops

// Float weights as linear_packed reads them: panels of 32 output features behind a 64-byte header
// (kernels/panel_layout.h), in their own width, the same bytes on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "tilewright/core/dtype.h"
#include "tilewright/core/tensor.h"
#include "tilewright/core/view.h"
#include "tilewright/kernels/panel_layout.h"

namespace tw::ops {

/// Bytes of a packed weight [n, k]. Throws kInvalidArgument when they leave 64 bits.
TW_API int64_t packed_weight_bytes(int64_t n, int64_t k, DType dtype);

/// Packs a weight [n, k] of float, f16 or bf16 panel by panel, so that threads can share the work.
template <class T>
class TW_API WeightPacker {
 public:
  /// The weight may have any strides and must stay readable until the last pack(). The packed bytes
  /// come from `arena` if there is one. Throws kInvalidArgument when their size leaves 64 bits.
  explicit WeightPacker(const View<const T, 2>& weight, Arena* arena = nullptr);

  int64_t panels() const { return panels_; }
  /// Packs the panels [begin, end). Calls for disjoint ranges may run at once.
  void pack(int64_t begin, int64_t end) const;
  /// The result as u8[P], complete once every panel is packed.
  const Tensor& packed() const { return packed_; }

 private:
  View<const T, 2> weight_;
  int64_t panels_ = 0;
  Tensor packed_;
};
extern template class WeightPacker<float>;
extern template class WeightPacker<f16>;
extern template class WeightPacker<bf16>;

/// Packs a whole weight [n, k] on this thread.
template <class T>
Tensor pack_weight(const View<const T, 2>& weight) {
  const WeightPacker<T> packer(weight);
  packer.pack(0, packer.panels());
  return packer.packed();
}

/// The header of packed weights that came from anywhere; `reason` says what is wrong with them, if
/// anything is. Sizes are checked against the bytes there are.
struct PackedWeightCheck {
  kernels::PanelHeader header{};
  std::string reason;  // empty: valid
};
TW_API PackedWeightCheck check_packed_weight(const uint8_t* data, int64_t bytes);

/// Row `row` of packed weights as float32 at out[0 .. k). `data` must have passed
/// check_packed_weight.
TW_API void unpack_weight_row(const uint8_t* data, int64_t row, float* out);

}  // namespace tw::ops

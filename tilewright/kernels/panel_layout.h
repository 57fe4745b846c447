// The layout of weights packed for linear_packed: a 64-byte header, then panels of kWidth output
// features each, the last one padded with zeros. Within a panel, k-major:
//
//   f32, f16   [k][kWidth]
//   bf16       [k / 2][kWidth][2]     pairs of k, as vdpbf16ps reads them; an odd k is padded
//
// It is the same on every instruction set.
#pragma once

#include "tilewright/core/dtype.h"
#include "tilewright/core/types.h"

namespace tw::kernels {

struct PanelHeader {
  static constexpr uint32_t kMagic = 0x4b505754;  // "TWPK", little-endian
  static constexpr uint16_t kVersion = 1;

  uint32_t magic;
  uint16_t version;
  uint8_t dtype;       // a DType
  uint8_t interleave;  // values of k side by side
  int64_t n, k;        // the weight's sizes
  int64_t panel_width;
  int64_t total_bytes;   // of header and panels
  uint8_t reserved[24];  // zero
};
static_assert(sizeof(PanelHeader) == 64);

/// Values of k that lie side by side.
template <class T>
inline constexpr int64_t kPanelInterleave = 1;
template <>
inline constexpr int64_t kPanelInterleave<bf16> = 2;

template <class T>
struct PanelLayout {
  static constexpr int64_t kWidth = 32;
  static constexpr int64_t kInterleave = kPanelInterleave<T>;
  /// Elements from one panel to the next.
  TW_INLINE static int64_t stride(int64_t k) {
    return (k + kInterleave - 1) / kInterleave * kInterleave * kWidth;
  }
  /// The offset of element (n, k) from the first panel.
  TW_INLINE static int64_t offset(int64_t n, int64_t k, int64_t panel_stride) {
    return n / kWidth * panel_stride + k / kInterleave * kInterleave * kWidth +
           n % kWidth * kInterleave + k % kInterleave;
  }
};

/// The header of a weight [n, k] of T in `bytes` bytes.
template <class T>
PanelHeader panel_header(int64_t n, int64_t k, int64_t bytes) {
  PanelHeader header{};
  header.magic = PanelHeader::kMagic;
  header.version = PanelHeader::kVersion;
  header.dtype = static_cast<uint8_t>(dtype_of<T>);
  header.interleave = kPanelInterleave<T>;
  header.n = n;
  header.k = k;
  header.panel_width = PanelLayout<T>::kWidth;
  header.total_bytes = bytes;
  return header;
}

}  // namespace tw::kernels

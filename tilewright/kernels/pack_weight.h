// A weight in panels, as panel_layout.h says: one program per panel; the first writes the header.
#pragma once

#include "tilewright/kernels/panel_layout.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// Panel `panel` of a weight [n, k], filled up with zeros.
template <class T>
TW_INLINE void pack_panel(const View<const T, 2>& weight, int64_t panel, T* panels) {
  using Layout = PanelLayout<T>;
  constexpr int64_t kInterleave = Layout::kInterleave, kWidth = Layout::kWidth;
  constexpr int64_t kBlock = 64 / int64_t{sizeof(T)};  // one cache line of every row at a time
  const int64_t n = weight.size(0), k = weight.size(1), stride = Layout::stride(k);
  const int64_t rest = n - panel * kWidth, rows = rest < kWidth ? rest : kWidth;
  T* const to = panels + panel * stride;
  if (rows < kWidth || k % kInterleave != 0)
    __builtin_memset(static_cast<void*>(to), 0, static_cast<size_t>(stride) * sizeof(T));
  for (int64_t first = 0; first < k; first += kBlock) {
    const int64_t last = first + kBlock < k ? first + kBlock : k;
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = weight.data + (panel * kWidth + r) * weight.stride(0);
      T* column = to + r * kInterleave;
      for (int64_t i = first; i < last; ++i)
        column[i / kInterleave * kInterleave * kWidth + i % kInterleave] =
            row[i * weight.stride(1)];
    }
  }
}

template <class T>
struct PackWeight {
  View<const T, 2> weight;  // [N, K]
  View<uint8_t, 1> packed;  // [P]

  TW_INLINE int64_t panels() const {
    return (weight.size(0) + PanelLayout<T>::kWidth - 1) / PanelLayout<T>::kWidth;
  }

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(panels() > 0 ? panels() : 1);
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const PanelHeader header = panel_header<T>(weight.size(0), weight.size(1), packed.size(0));
    if (p.index() == 0) put(0, header);
    if (p.index() >= panels()) return;
    if (packed.stride(0) == 1 && reinterpret_cast<uintptr_t>(packed.data) % alignof(T) == 0)
      pack_panel(weight, p.index(), reinterpret_cast<T*>(packed.data + sizeof header));
    else
      pack_bytes(p.index());
  }

 private:
  template <class E>
  TW_INLINE void put(int64_t first, const E& value) const {
    uint8_t bytes[sizeof value];
    __builtin_memcpy(bytes, &value, sizeof value);
    for (int64_t i = 0; i < int64_t{sizeof value}; ++i) packed(first + i) = bytes[i];
  }

  /// A panel of memory with gaps, or that begins anywhere.
  TW_INLINE void pack_bytes(int64_t panel) const {
    using Layout = PanelLayout<T>;
    const int64_t n = weight.size(0), k = weight.size(1), stride = Layout::stride(k);
    for (int64_t r = panel * Layout::kWidth; r < (panel + 1) * Layout::kWidth; ++r)
      for (int64_t i = 0; i < stride / Layout::kWidth; ++i)
        put(int64_t{sizeof(PanelHeader)} + Layout::offset(r, i, stride) * int64_t{sizeof(T)},
            r < n && i < k ? weight(r, i) : T{});
  }
};

}  // namespace tw::kernels

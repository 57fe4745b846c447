// Rows of 4-bit numbers, two in a byte, the low half first, in groups with a scale and a zero
// point: out[r, c] = (x[r, c] - zero[r, c / group_size]) * scale[r, c / group_size]. One program
// per row.
#pragma once

#include "tilewright/tile/tile.h"
#if !defined(__CUDACC__)
#include "tilewright/tile/cpu/unpack.h"
#endif

namespace tw::kernels {

template <class T>
struct DequantizeInt4 {
  static constexpr int64_t kWord = 8;  // numbers

  View<const int8_t, 2> x;     // [rows, cols / 2]
  View<const T, 2> scale;      // [rows, cols / group_size]
  View<const int8_t, 2> zero;  // [rows, cols / group_size]
  int64_t group_size;
  View<T, 2> out;  // [rows, cols]

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    return tile::plan_of(out.size(1) > 0 ? out.size(0) : 0).over(out.size(1));
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    const int64_t r = p.index();
    if constexpr (!P::kOnGpu)
      if (group_size % 2 == 0 && x.stride(1) == 1) return by_groups(p, r);
#if defined(__CUDACC__)
    if (has_words()) return by_words(p, r);
#endif
    by_columns(p, r);
  }

 private:
  template <class P>
  TW_INLINE void by_columns(P p, int64_t r) const {
    using V = typename P::template Vec<float>;
    const View<T, 1> to = out[r];
    tile::for_row(p, to, [&](auto at) {
      V v = tile::splat<V>(0.0f);
      TW_UNROLL
      for (int i = 0; i < decltype(at)::kLanes; ++i) {
        if (i >= at.count) continue;
        const int64_t c = at.offset + i, g = c / group_size;
        const int byte = uint8_t(x(r, c / 2));
        const int code = c % 2 == 0 ? byte & 15 : byte >> 4;
        v[i] = float(code - int(zero(r, g))) * float(scale(r, g));
      }
      tile::store(p, to, at, v);
    });
  }

#if defined(__CUDACC__)
  /// Whether the numbers of a span are a word of a row, and of one group, and what they become is
  /// whole words.
  TW_INLINE bool has_words() const {
    const auto begins_at = [](const auto& rows, int64_t bytes) {
      return (reinterpret_cast<uint64_t>(rows.data) |
              uint64_t(rows.stride(0) * int64_t{sizeof(*rows.data)})) %
                     uint64_t(bytes) ==
                 0 &&
             rows.stride(1) == 1;
    };
    return group_size % kWord == 0 && out.size(1) % kWord == 0 && begins_at(x, sizeof(uint32_t)) &&
           begins_at(out, 16);
  }
  template <class P>
  __device__ __forceinline__ void by_words(P p, int64_t r) const {
    static_assert(P::template kLanes<float> == kWord);
    tile::with_rows(
        p,
        [&](const auto& to) {
          tile::for_row(p, to, [&](auto at) {
            typename P::template Vec<float> v;
            const int64_t g = index_quotient(at.offset, group_size);
            const auto word = *reinterpret_cast<const uint32_t*>(&x(r, at.offset / 2));
            const float step = float(scale(r, g)), origin = float(zero(r, g));
            TW_UNROLL
            for (int i = 0; i < kWord; ++i) v[i] = (float(word >> 4 * i & 15) - origin) * step;
            tile::store(p, to, at, v);
          });
        },
        out[r]);
  }
#endif

  /// Groups of whole bytes, which lie side by side.
  template <class P>
  TW_INLINE void by_groups(P p, int64_t r) const {
    using V = typename P::template Vec<float>;
    using I = typename P::template Vec<int32_t>;
    const View<T, 1> row = out[r];
    for (int64_t g = 0, first = 0; first < row.size(0); ++g, first += group_size) {
      const int64_t rest = row.size(0) - first;
      const View<T, 1> to = row.part(first, rest < group_size ? rest : group_size);
      const auto* const bytes = reinterpret_cast<const uint8_t*>(&x(r, 0)) + first / 2;
      const V step = tile::splat<V>(float(scale(r, g))), origin = tile::splat<V>(float(zero(r, g)));
      tile::for_row(p, to, [&](auto at) {
        uint8_t last[tile::kLanesOf<V> / 2] = {};
        const uint8_t* codes = bytes + at.offset / 2;
        if (at.count < decltype(at)::kLanes) {
          __builtin_memcpy(last, codes, size_t(at.count + 1) / 2);
          codes = last;
        }
        tile::store(p, to, at, V((tile::convert<V>(tile::widen_u4<I>(codes)) - origin) * step));
      });
    }
  }
};

}  // namespace tw::kernels

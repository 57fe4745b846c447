// The words of tile/philox.h on CUDA, drawn where a row's elements depend on them. Freestanding.
#pragma once

#include "tilewright/tile/cuda/rows.h"
#include "tilewright/tile/philox.h"

namespace tw::tile {

namespace detail {

/// Zero in place of the elements whose byte of `kept` is zero, not all ones.
template <class T>
__device__ __forceinline__ Raw<T, 8> kept_of(const Raw<T, 8>& raw, uint2 kept) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4);
  constexpr int kWords = int(sizeof(raw)) / 4, kHalf = kWords / 2;
  uint32_t words[kWords];
  __builtin_memcpy(words, raw.words, sizeof(words));
  TW_UNROLL
  for (int i = 0; i < kWords; ++i) {
    const unsigned bytes = sizeof(T) == 2 ? 0x1100u + 0x2222u * (i % 2) : 0x1111u * (i % 4);
    words[i] &= __byte_perm(i < kHalf ? kept.x : kept.y, 0, bytes);
  }
  Raw<T, 8> out;
  __builtin_memcpy(out.words, words, sizeof(words));
  return out;
}

/// Bytes of ones for the words of four counters, the first a multiple of four, that are at least
/// `least`: four times four.
__device__ __forceinline__ void draw(const PhiloxKeys& keys, uint64_t counter, uint32_t least,
                                     uint32_t (&kept)[4]) {
  TW_UNROLL
  for (int i = 0; i < 4; ++i) {
    const PhiloxBits bits = philox(keys, counter | uint64_t(i), 0);
    TW_UNROLL
    for (int w = 0; w < 4; ++w)
      if (bits.word[w] >= least) kept[w] |= 0xffu << i * 8;
  }
}

}  // namespace detail

/// to[c] = from[c] * scale where word `first` + c is at least `least`, else 0. The plan is over at
/// least kDrawnColumns columns, its scratch drawn_bytes.
template <class C, class P, class From, class To>
__device__ __forceinline__ void scale_drawn(P p, const PhiloxKeys& keys, int64_t first,
                                            uint32_t least, C scale, const From& from,
                                            const To& to) {
  for_row<C>(p, to, [&](const auto& at) {
    auto v = load(from, at);
    TW_UNROLL
    for (int i = 0; i < at.kLanes; ++i)
      v[i] = philox_word(keys, uint64_t(first + at.offset + i)) >= least ? v[i] * scale : C(0);
    store(p, to, at, v);
  });
}
/// A draw of eight counters serves four spans that are 16 elements apart. So that warps read and
/// write memory in order, a thread draws for spans that others have, and leaves in scratch what
/// these need. The row has fewer than 2^31 columns.
template <class C, class P, class T, class U>
__device__ __forceinline__ void scale_drawn(P p, const PhiloxKeys& keys, int64_t first,
                                            uint32_t least, C scale, const AlignedRow<T>& from,
                                            const AlignedRow<U>& to) {
  constexpr int kN = P::template kLanes<C>, kSpans = 4, kPart = 32 * kSpans * kN;
  static_assert(kN == 8);
  if (first % 64 != 0)
    return scale_drawn<C>(p, keys, first, least, scale, View<T, 1>{from.data, {to.size(0)}, {1}},
                          View<U, 1>{to.data, {to.size(0)}, {1}});
  constexpr int kLane = P::kDrawnWords / 8, kHalf = P::kDrawnWords / 2;  // lanes in other banks
  const int lane = p.thread() % 32, warp = p.thread() / 32, warps = p.threads() / 32;
  uint32_t* const drawn = p.template scratch<uint32_t>() + warp * P::kDrawnWords;
  const uint32_t* const needed = drawn + lane % 8 / 2 * kLane + lane / 8 * 2 + lane % 2;
  const int n = int(to.size(0));
  TW_ROLLED
  for (int part = warp * kPart; part < n; part += warps * kPart) {
    const int column = part + lane * kN;
    RawOf<P, C, T> raw[kSpans] = {};
    TW_UNROLL
    for (int j = 0; j < kSpans; ++j)
      if (column + j * 32 * kN < n)
        raw[j] = load_raw(from, span_at<C>(p, from, column + j * 32 * kN));
    __syncwarp();  // loads are under way before words are drawn; those drawn before have been read
    const uint64_t counter = uint64_t(first + part) / kSpans + unsigned(lane * kN);
    uint32_t* to_draw = drawn + lane;
    TW_ROLLED
    for (unsigned i = 0; i < kN; i += kN / 2, to_draw += kHalf) {
      uint32_t kept[kSpans] = {};
      detail::draw(keys, counter + i, least, kept);
      TW_UNROLL
      for (int w = 0; w < kSpans; ++w) to_draw[w * kLane] = kept[w];
    }
    __syncwarp();
    TW_UNROLL
    for (int j = 0; j < kSpans; ++j) {
      if (column + j * 32 * kN >= n) break;
      using R = RawOf<P, C, U>;
      const R scaled = R::narrow(raw[j].template widen<C>() * scale);
      detail::kept_of(scaled, make_uint2(needed[j * 8], needed[j * 8 + kHalf]))
          .store(to.data + column + j * 32 * kN);
    }
  }
}

}  // namespace tw::tile

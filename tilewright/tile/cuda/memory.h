// What a thread loads and stores at once: the lanes of a vector in their storage type, in accesses
// of up to 16 bytes. Freestanding.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/cuda/vector.h"

namespace tw::tile {

namespace detail {

template <int kBytes>
struct WordOf {
  using type = uint_bytes_t<kBytes>;
};
template <>
struct WordOf<8> {  // registers have 32 bits
  using type = uint2;
};
template <>
struct WordOf<16> {
  using type = uint4;
};

__device__ __forceinline__ uint32_t narrow_f16(float low, float high) {
  uint32_t out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
__device__ __forceinline__ uint32_t narrow_bf16(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

}  // namespace detail

/// kN elements as they lie in memory.
template <class T, int kN>
struct Raw {
  static constexpr int kBytes = int(sizeof(T)) * kN;
  static constexpr int kWordBytes = kBytes < 16 ? kBytes : 16;
  using Word = typename detail::WordOf<kWordBytes>::type;
  static constexpr int kWords = kBytes / kWordBytes;

  Word words[kWords];

  __device__ __forceinline__ static bool is_aligned(const T* p) {
    return (reinterpret_cast<uint64_t>(p) & (kWordBytes - 1)) == 0;
  }
  __device__ __forceinline__ static Raw load(const T* p) {
    Raw out;
    TW_UNROLL
    for (int w = 0; w < kWords; ++w) out.words[w] = reinterpret_cast<const Word*>(p)[w];
    return out;
  }
  /// Elements p[0], p[stride] ...; past `count` zero.
  __device__ __forceinline__ static Raw gather(const T* p, int64_t stride, int count) {
    T lanes[kN];
    TW_UNROLL
    for (int i = 0; i < kN; ++i) lanes[i] = i < count ? p[i * stride] : T{};
    return of(lanes);
  }
  /// Elements of a row that lies anyhow from `column` on; past its end zero.
  __device__ __forceinline__ static Raw of_row(const View<const T, 1>& row, int64_t column) {
    const int64_t left = row.size(0) - column;
    const T* const from = row.data + column * row.stride(0);
    if (left >= kN && row.stride(0) == 1 && is_aligned(from)) return load(from);
    return gather(from, row.stride(0), left < kN ? int(left) : kN);
  }
  __device__ __forceinline__ static Raw of(const T (&lanes)[kN]) {
    Raw out;
    __builtin_memcpy(out.words, lanes, kBytes);
    return out;
  }

  __device__ __forceinline__ void store(T* p) const {
    TW_UNROLL
    for (int w = 0; w < kWords; ++w) reinterpret_cast<Word*>(p)[w] = words[w];
  }
  /// To global memory. Spelled out: nvcc may store a word of numbers of 32 bits as four.
  __device__ __forceinline__ void store_global(T* p) const {
    if constexpr (kWordBytes == 16) {
      TW_UNROLL
      for (int w = 0; w < kWords; ++w)
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(
                         __cvta_generic_to_global(reinterpret_cast<Word*>(p) + w)),
                     "r"(words[w].x), "r"(words[w].y), "r"(words[w].z), "r"(words[w].w)
                     : "memory");
    } else {
      store(p);
    }
  }
  __device__ __forceinline__ void scatter(T* p, int64_t stride, int count) const {
    T lanes[kN];
    __builtin_memcpy(lanes, words, kBytes);
    TW_UNROLL
    for (int i = 0; i < kN; ++i)
      if (i < count) p[i * stride] = lanes[i];
  }
  /// To a row, as of_row.
  __device__ __forceinline__ void to_row(const View<T, 1>& row, int64_t column) const {
    const int64_t left = row.size(0) - column;
    T* const to = row.data + column * row.stride(0);
    if (left >= kN && row.stride(0) == 1 && is_aligned(to)) return store(to);
    scatter(to, row.stride(0), left < kN ? int(left) : kN);
  }

  __device__ __forceinline__ T element(int i) const {
    T lanes[kN];
    __builtin_memcpy(lanes, words, kBytes);
    return lanes[i];
  }
  template <class C>
  __device__ __forceinline__ Pack<C, kN> widen() const {
    Pack<C, kN> out;
    if constexpr (same_type<T, bf16> && kN % 2 == 0) {  // an instruction for each lane of a pair
      uint32_t pairs[kN / 2];
      __builtin_memcpy(pairs, words, kBytes);
      TW_UNROLL
      for (int i = 0; i < kN; i += 2) {
        out.lane[i] = C(__uint_as_float(pairs[i / 2] << 16));
        out.lane[i + 1] = C(__uint_as_float(pairs[i / 2] & 0xffff0000u));
      }
      return out;
    }
    T lanes[kN];
    __builtin_memcpy(lanes, words, kBytes);
    TW_UNROLL
    for (int i = 0; i < kN; ++i) out.lane[i] = C(lanes[i]);
    return out;
  }
  /// Rounds to nearest even.
  template <class C>
  __device__ __forceinline__ static Raw narrow(const Pack<C, kN>& v) {
    if constexpr (same_type<C, float> && (same_type<T, bf16> || same_type<T, f16>)) {
      uint32_t pairs[kN / 2];
      TW_UNROLL
      for (int i = 0; i < kN / 2; ++i) {
        if constexpr (same_type<T, bf16>)
          pairs[i] = detail::narrow_bf16(v[2 * i], v[2 * i + 1]);
        else
          pairs[i] = detail::narrow_f16(v[2 * i], v[2 * i + 1]);
      }
      Raw out;
      __builtin_memcpy(out.words, pairs, kBytes);
      return out;
    } else {
      T lanes[kN];
      TW_UNROLL
      for (int i = 0; i < kN; ++i) lanes[i] = T(v[i]);
      return of(lanes);
    }
  }
};

template <class T>
struct remove_const {
  using type = T;
};
template <class T>
struct remove_const<const T> {
  using type = T;
};
/// Lanes of arithmetic type C as they lie in memory as T.
template <class P, class C, class T>
using RawOf = Raw<typename remove_const<T>::type, P::template kLanes<C>>;

}  // namespace tw::tile

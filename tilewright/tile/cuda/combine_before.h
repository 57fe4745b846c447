// What the threads before each one have, combined, on CUDA. Freestanding.
#pragma once

#include "tilewright/tile/cuda/primitives.h"

namespace tw::tile {

template <class V>
struct Combined {
  V before, all;  // the threads before this one, and all of them, in order
};

/// Of the values of the threads of an instance. Calls one after the other have turns 0, 1, 2 ...:
/// their warps exchange what they have in two places in turn, so that each call waits once.
template <class R, class P, class V>
__device__ __forceinline__ Combined<V> combine_before(P p, V value, int turn) {
  const int width = p.threads() < 32 ? p.threads() : 32, lane = p.thread() & (width - 1);
  const unsigned mask = p.mask();
  const auto add = [&](int step) {
    const V other = __shfl_up_sync(mask, value, step, width);
    if (lane >= step) value = R::combine(other, value);
  };
  if (p.threads() >= 32) {
    TW_UNROLL
    for (int step = 1; step < 32; step *= 2) add(step);
  } else {
    TW_ROLLED
    for (int step = 1; step < width; step *= 2) add(step);
  }
  V before = __shfl_up_sync(mask, value, 1, width);
  if (lane == 0) before = R::template identity<V>();
  if (p.threads() <= 32) return {before, __shfl_sync(mask, value, width - 1, width)};
  constexpr int kWarps = cuda::kMaxThreads / 32;
  static_assert(2 * kWarps * sizeof(V) <= 32 * sizeof(double));
  V* const shared = reinterpret_cast<V*>(p.shared_) + (turn & 1) * kWarps;
  const int warp = p.thread() / 32, warps = p.threads() / 32;
  if (lane == 31) shared[warp] = value;
  __syncthreads();
  V warps_before = R::template identity<V>(), all = warps_before;
  TW_UNROLL_4
  for (int w = 0; w < warps; ++w) {
    if (w == warp) warps_before = all;
    all = R::combine(all, shared[w]);
  }
  return {R::combine(warps_before, before), all};
}

/// The same elements, of which the compiler no longer knows what it has computed of them: where
/// they are widened twice, it would keep the wider ones in registers.
template <class T, int kN>
__device__ __forceinline__ Raw<T, kN> anew(Raw<T, kN> raw) {
  constexpr int kCount = Raw<T, kN>::kBytes / 4;
  uint32_t words[kCount];
  __builtin_memcpy(words, raw.words, sizeof(words));
  TW_UNROLL
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(words[i]));
  __builtin_memcpy(raw.words, words, sizeof(words));
  return raw;
}

}  // namespace tw::tile

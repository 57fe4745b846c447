// Lists of positions that the threads of a grid link in any order, and which are walked in order;
// and who matches among all positions, by a whole block. On CUDA. Freestanding.
#pragma once

#include "tilewright/tile/cuda/primitives.h"

namespace tw::tile {

/// Position i is the first of the list that begins at `head`, next[i] the one behind it; -1: none.
__device__ __forceinline__ void link(int64_t* head, int64_t* next, int64_t i) {
  using Word = unsigned long long;
  next[i] = int64_t(atomicExch(reinterpret_cast<Word*>(head), Word(i)));
}
/// A place of its own for whoever asks, from 0 on.
__device__ __forceinline__ int64_t take_place(int64_t* taken) {
  return int64_t(atomicAdd(reinterpret_cast<unsigned long long*>(taken), 1ull));
}

/// A list's positions in shared memory, for some lanes of a warp that lie side by side.
template <int kMost>
struct ShortList {
  static_assert(kMost <= 256);
  int64_t found[kMost];
  uint8_t order[kMost];

  /// By all lanes of the warp, each for the list that begins with `first`; its length, and one more
  /// than kMost where it is longer: then nothing is known of it.
  __device__ __forceinline__ int collect(const int64_t* next, int64_t first, int lane, int lanes) {
    int count = 0;
    TW_ROLLED
    for (int64_t i = first; i >= 0 && count <= kMost; i = next[i], ++count)
      if (count < kMost && (count & (lanes - 1)) == lane) found[count] = i;
    __syncwarp();
    if (count <= kMost) {
      TW_ROLLED
      for (int e = lane; e < count; e += lanes) {
        const int64_t its = found[e];
        int rank = 0;
        TW_ROLLED
        for (int k = 0; k < count; ++k) rank += found[k] < its ? 1 : 0;
        order[rank] = uint8_t(e);
      }
    }
    __syncwarp();
    return count;
  }
  /// Number k of them, in order.
  __device__ __forceinline__ int64_t operator[](int k) const { return found[order[k]]; }
};

/// Puts the i in [first, first + kEach * threads) and below n that `matches` to `to`, in order; how
/// many there are. By a block of whole warps, which sees them all afterwards.
template <int kEach, class P, class M>
__device__ __forceinline__ int append_matches(P p, int64_t first, int64_t n, M&& matches,
                                              int64_t* to) {
  const int lane = p.thread() % 32, warp = p.thread() / 32, warps = p.threads() / 32;
  const int64_t begin = first + warp * (32 * kEach) + lane;
  bool is[kEach];
  TW_UNROLL
  for (int j = 0; j < kEach; ++j) is[j] = begin + 32 * j < n && matches(begin + 32 * j);
  unsigned found[kEach];
  int its = 0;
  TW_UNROLL
  for (int j = 0; j < kEach; ++j) {
    found[j] = __ballot_sync(0xffffffffu, is[j]);
    its += __popc(found[j]);
  }
  int* const counts = reinterpret_cast<int*>(p.shared_);
  if (lane == 0) counts[warp] = its;
  __syncthreads();
  int at = 0, all = 0;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) at = all;
    all += counts[w];
  }
  TW_UNROLL
  for (int j = 0; j < kEach; ++j) {
    const unsigned before = found[j] & ((1u << lane) - 1);
    if ((found[j] >> lane & 1) != 0) to[at + __popc(before)] = begin + 32 * j;
    at += __popc(found[j]);
  }
  __syncthreads();  // and the next call writes the same memory
  return all;
}

}  // namespace tw::tile

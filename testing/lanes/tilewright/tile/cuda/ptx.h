// Stands in for tile/cuda/ptx.h where the text of a device kernel runs on a CPU: a thread for each
// lane of a warp, which meet at every instruction that exchanges values.
#pragma once

#include <algorithm>
#include <barrier>
#include <bit>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "tilewright/core/types.h"

#define TW_PTX inline
#define __device__
#define __forceinline__ inline
#define __noinline__

namespace tw::testing {

struct Index {
  unsigned x = 0, y = 0;
};

/// What the lanes of a warp exchange.
struct Warp {
  std::barrier<> meeting{32};
  uint32_t words[32] = {};
  char* addresses[32] = {};
};

}  // namespace tw::testing

inline thread_local tw::testing::Index threadIdx, blockIdx, blockDim;
inline thread_local tw::testing::Warp* this_warp = nullptr;
inline thread_local std::barrier<>* this_block = nullptr;  // of several warps
inline tw::testing::Index gridDim;

namespace tw::testing {

inline int lane() {
  return int(threadIdx.x % 32);
}
template <class T>
T from_lane(T value, int source) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  this_warp->words[lane()] = std::bit_cast<uint32_t>(value);
  this_warp->meeting.arrive_and_wait();
  const T out = std::bit_cast<T>(this_warp->words[source]);
  this_warp->meeting.arrive_and_wait();
  return out;
}

/// Runs the warp of `block` whose first thread is `first`, of row y of its threads.
inline void run_warp(unsigned block, unsigned first, const std::function<void()>& body,
                     unsigned y = 0) {
  Warp warp;
  std::vector<std::jthread> lanes;
  for (unsigned i = 0; i < 32; ++i)
    lanes.emplace_back([&, i] {
      this_warp = &warp;
      threadIdx.x = first + i, threadIdx.y = y;
      blockIdx.x = block;
      body();
    });
}

/// Runs all warps of `block`, which has so many rows of threads.
inline void run_block(unsigned block, unsigned threads, const std::function<void()>& body,
                      unsigned rows = 1) {
  std::barrier<> meeting{threads * rows};
  std::vector<std::jthread> warps;
  for (unsigned first = 0; first < threads * rows; first += 32)
    warps.emplace_back([&, first] {
      const auto run = [&] {
        this_block = &meeting;
        blockDim.x = threads, blockDim.y = rows;
        body();
      };
      run_warp(block, first % threads, run, first / threads);
    });
}

}  // namespace tw::testing

using std::max;
using std::min;

template <class T>
T __shfl_sync(unsigned, T value, int source) {
  return tw::testing::from_lane(value, source);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return tw::testing::from_lane(value, tw::testing::lane() ^ mask);
}
template <class T>
T __shfl_up_sync(unsigned, T value, int step) {
  const int source = tw::testing::lane() - step;
  return tw::testing::from_lane(value, source < 0 ? tw::testing::lane() : source);
}
inline void __syncthreads() {
  (this_block != nullptr ? *this_block : this_warp->meeting).arrive_and_wait();
}
inline void __syncwarp() {
  this_warp->meeting.arrive_and_wait();
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  unsigned out = 0;
  for (int i = 0; i < 32; ++i) out |= unsigned(__shfl_sync(~0u, int(vote), i)) << i;
  return out;
}
inline bool __any_sync(unsigned, bool vote) {
  return __ballot_sync(~0u, vote) != 0;
}
inline uint32_t __float_as_uint(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline float __uint_as_float(uint32_t x) {
  return std::bit_cast<float>(x);
}
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(unsigned(x)) + 1;
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
/// Bytes of two words, by number.
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t numbers) {
  const uint64_t both = uint64_t{high} << 32 | low;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i)
    out |= uint32_t(both >> (8 * (numbers >> (4 * i) & 7)) & 0xff) << (8 * i);
  return out;
}
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline float __log2f(float x) {
  return std::log2(x);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct uint4 {
  uint32_t x, y, z, w;
};

namespace tw::tile::cuda {

/// Of one block at a time.
alignas(64) inline char shared_scratch[232448];

inline bool elect_one() {
  return testing::lane() == 0;
}
inline int uniform(int x) {
  return x;
}

}  // namespace tw::tile::cuda

// The device code of tilewright-micro: kernels that do one thing as fast as the GPU does it. The
// host (gpu.cc) finds them by name.
#include "benchmarks/micro/gpu_shapes.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_int8.h"

namespace tw::bench {

using namespace tile::cuda;

/// Bits of no pattern.
__device__ uint32_t hash(uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

/// Random operands in a word: signs and mantissas of any bits, four magnitudes around 1, as numbers
/// of a normal distribution have; all bits of an integer.
template <class T>
__device__ uint32_t random_word(uint32_t x) {
  const uint32_t bits = hash(x);
  if constexpr (__is_same(T, int8_t))
    return bits;
  else if constexpr (__is_same(T, float))
    return (bits & 0x807fffffu) | (124 + (bits >> 23) % 4) << 23;
  else if constexpr (__is_same(T, bf16))
    return (bits & 0x807f807fu) | (124 + (bits >> 23) % 4) << 23 | (124 + (bits >> 7) % 4) << 7;
  else if constexpr (__is_same(T, f16))
    return (bits & 0x83ff83ffu) | (12 + (bits >> 26) % 4) << 26 | (12 + (bits >> 10) % 4) << 10;
  else  // e4m3
    return (bits & 0x9f9f9f9fu) | 0x20202020u;
}

/// Two warpgroups multiply m64 x kN tiles from shared memory, `rounds` times kTensorDepth of k.
template <class T, int kN>
__device__ void multiply(char* shared, int rounds, bool random, uint32_t* wanted) {
  constexpr int kStageBytes = (kTensorRows + kN) * kTensorDepth;
  using Sum = typename WgmmaSum<T>::type;
  for (int i = threadIdx.x; i < kTensorStages * kStageBytes / 4; i += blockDim.x)
    reinterpret_cast<uint32_t*>(shared)[i] = random ? random_word<T>(i + blockIdx.x) : 0;
  fence_async_shared();
  __syncthreads();
  const int group = uniform(threadIdx.x / 128);
  Sum sums[kN / 2] = {};
  for (int round = 0; round < rounds; ++round) {
    const char* const stage = shared + round % kTensorStages * kStageBytes;
    const uint64_t a = operand(stage + group * 64 * kTensorDepth),
                   b = operand(stage + kTensorRows * kTensorDepth);
    pin(sums);
    wgmma_fence();
    TW_UNROLL
    for (int k = 0; k < 4; ++k) Wgmma<T, kN>::mma(sums, advance(a, 32 * k), advance(b, 32 * k), 1);
    wgmma_commit();
    pin(sums);
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  pin(sums);
  if (wanted == nullptr) return;  // sums that none can want are not computed
  TW_UNROLL
  for (int i = 0; i < kN / 2; ++i) wanted[i] = uint32_t(sums[i]);
}

/// `kLive` values that are all in registers at once.
template <int kLive>
__device__ void hold(float* values) {
  float held[kLive];
  TW_UNROLL
  for (int i = 0; i < kLive; ++i) held[i] = values[threadIdx.x + i];
  pin(held);
  __syncthreads();
  pin(held);
  TW_UNROLL
  for (int i = 0; i < kLive; ++i) values[threadIdx.x + i] = held[i];
}

}  // namespace tw::bench

extern "C" {

using namespace tw;
using namespace tw::bench;

extern __shared__ __align__(1024) char dynamic_shared[];

__global__ void micro_empty() {}

/// Keeps a multiprocessor for so many of its clocks.
__global__ void micro_spin(int64_t clocks) {
  const int64_t begin = clock64();
  while (clock64() - begin < clocks) {
  }
}

// Of the memory kernels a block takes a slice, another one in each round, and a thread several
// vectors of it at once. `vectors` is a multiple of what all threads take at once.
#define TW_SLICE(rounds)                                                                       \
  const int64_t step = int64_t(gridDim.x) * blockDim.x;                                        \
  for (int round = 0; round < (rounds); ++round)                                               \
    for (int64_t first = (blockIdx.x + round) % gridDim.x * int64_t(blockDim.x) + threadIdx.x; \
         first < vectors; first += kVectorsAtOnce * step)

__global__ void __launch_bounds__(kMemoryThreads)
    micro_read(const uint4* from, int64_t vectors, int rounds, uint4* wanted) {
  uint4 sum = {};
  TW_SLICE(rounds) {
    uint4 got[kVectorsAtOnce];
    TW_UNROLL
    for (int i = 0; i < kVectorsAtOnce; ++i)
      got[i] = __ldcg(from + first + i * step);  // not from L1
    TW_UNROLL
    for (int i = 0; i < kVectorsAtOnce; ++i) {
      sum.x ^= got[i].x;
      sum.y ^= got[i].y;
      sum.z ^= got[i].z;
      sum.w ^= got[i].w;
    }
  }
  if (wanted != nullptr) *wanted = sum;
}
__global__ void __launch_bounds__(kMemoryThreads) micro_write(uint4* to, int64_t vectors) {
  TW_SLICE(1) {
    TW_UNROLL
    for (int i = 0; i < kVectorsAtOnce; ++i) to[first + i * step] = {1, 2, 3, 4};
  }
}
/// Adjacent vectors of a block that is there for these alone: reads and writes of one time then lie
/// together, which memory likes better than slices far apart.
__global__ void __launch_bounds__(kCopyThreads) micro_copy(const uint4* from, uint4* to) {
  const int64_t first = blockIdx.x * int64_t(kCopyThreads) * kVectorsAtOnce + threadIdx.x;
  uint4 got[kVectorsAtOnce];
  TW_UNROLL
  for (int i = 0; i < kVectorsAtOnce; ++i) got[i] = __ldcg(from + first + i * kCopyThreads);
  TW_UNROLL
  for (int i = 0; i < kVectorsAtOnce; ++i) to[first + i * kCopyThreads] = got[i];
}

/// Independent multiply-adds a round and thread.
__global__ void __launch_bounds__(kFmaThreads)
    micro_f32_fma(int rounds, float factor, float* wanted) {
  float sums[kFmas];
  TW_UNROLL
  for (int i = 0; i < kFmas; ++i) sums[i] = float(threadIdx.x + i);
#pragma unroll 8
  for (int round = 0; round < rounds; ++round) {
    TW_UNROLL
    for (int i = 0; i < kFmas; ++i) sums[i] = fmaf(sums[i], factor, 1.0f);
  }
  if (wanted == nullptr) return;
  TW_UNROLL
  for (int i = 0; i < kFmas; ++i) wanted[i] = sums[i];
}

#define TW_TENSOR(name, T, kN)                                        \
  __global__ void __launch_bounds__(kTensorThreads, 1)                \
      micro_tensor_##name(int rounds, int random, uint32_t* wanted) { \
    multiply<T, kN>(dynamic_shared, rounds, random != 0, wanted);     \
  }
TW_TENSOR(bf16, bf16, 256)
TW_TENSOR(f16, f16, 256)
TW_TENSOR(tf32, float, 256)
TW_TENSOR(e4m3, f8_e4m3fn, 256)
TW_TENSOR(int8, int8_t, 192)

#define TW_HOLD(kLive)                                                                \
  __global__ void __launch_bounds__(kHoldThreads) micro_hold_##kLive(float* values) { \
    hold<kLive>(values);                                                              \
  }
TW_HOLD(16)
TW_HOLD(48)
TW_HOLD(112)
TW_HOLD(208)

}  // extern "C"

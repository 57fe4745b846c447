// The CUDA program: a group of threads works through an instance, each on its own lanes. The type
// is also known to the host, which asks kernels for their plan for it. Freestanding.
//
// threadIdx.x counts the threads of an instance, threadIdx.y the instances of a block. An instance
// has a whole block, or a power of two of at most 32 threads.
#pragma once

#include "tilewright/tile/compute_type.h"
#include "tilewright/tile/program.h"

namespace tw::tile {

template <class T, int kN>
struct Pack;

namespace cuda {

#if defined(__CUDACC__)
/// The block's shared memory beyond what is declared elsewhere.
extern __shared__ __align__(16) char shared_scratch[];
#endif

/// Threads of a block at most, and of one that holds several instances.
inline constexpr int kMaxThreads = 512, kSharedBlockThreads = 128;
/// Spans of a row that a thread keeps in registers, and bytes of it that a block keeps in shared
/// memory beyond (primitives.h): two blocks share a multiprocessor.
inline constexpr int kSlots = 4;
inline constexpr int64_t kKeptSharedBytes = 112 << 10;

/// How turn_block (transpose.h) holds a block turned in shared memory: in words of four bytes, or
/// of one element, where that is wider. Rows are a word longer than they must be, so that the words
/// of a column lie in different banks.
template <class U>
struct TurnedBlock {
  static constexpr int kElements = int(kTurnedBlock<U>);
  static constexpr int kPacked = sizeof(U) < 4 ? 4 / int(sizeof(U)) : 1;  // elements of a word
  static constexpr int kPitch = kElements / kPacked + 1;
  static constexpr int kWordBytes = kPacked * int(sizeof(U));
  static constexpr int64_t kBytes = int64_t{kElements} * kPitch * kWordBytes;
};

/// Threads of an instance that walks so many columns: a span of eight each up to a warp, then
/// kSlots each; whole warps from 33 threads on, powers of two below.
TW_INLINE constexpr int threads_for(int64_t columns) {
  constexpr int64_t kSpan = 8, kWarp = 32, kWarpColumns = kWarp * kSpan * kSlots;
  if (columns > kWarpColumns) {
    const int64_t warps = (columns + kWarpColumns - 1) / kWarpColumns;
    return warps * kWarp < kMaxThreads ? int(warps * kWarp) : kMaxThreads;
  }
  int threads = 1;
  while (threads < kWarp && threads * kSpan < columns) threads *= 2;
  return threads;
}

struct Program {
  static constexpr bool kOnGpu = true;
  /// 16 bytes of a 16-bit type, widened: what one thread loads and stores at a time.
  template <class C = float>
  static constexpr int kLanes = same_type<C, float> ? 8 : 16 / int(sizeof(C));
  template <class C>
  using Vec = Pack<C, kLanes<C>>;

  /// Scratch of turn_block.
  template <class U>
  static constexpr int64_t kTurnedBytes = TurnedBlock<U>::kBytes;
  /// Of shared memory, for each of two blocks.
  static constexpr int64_t kSharedBytes = kKeptSharedBytes;

  /// A program has one row: the blocks of a multiprocessor overlap each other.
  TW_INLINE static int64_t row_groups(int64_t rows, int64_t, const Machine&) { return rows; }
  /// Spans of a row of T that a thread keeps for arithmetic in C: in 32 registers at most.
  template <class C, class T>
  static constexpr int kKeptSpans =
      kSlots * kLanes<C> * int(sizeof(T)) <= 128 ? kSlots : 128 / (kLanes<C> * int(sizeof(T)));
  template <class C, class T>
  TW_INLINE static constexpr int64_t kept_bytes(int64_t cols) {
    const int64_t left = cols - int64_t{threads_for(cols)} * kLanes<C> * kKeptSpans<C, T>;
    const int64_t bytes = left * int64_t{sizeof(T)};
    return bytes < 0 ? 0 : bytes < kKeptSharedBytes ? bytes : kKeptSharedBytes;
  }
  template <class C>
  TW_INLINE static constexpr int64_t memo_bytes(int64_t) {
    return 0;
  }

  int64_t index_;
  int phase_;
  double* shared_;  // one per warp, for reductions
  void* workspace_;
  void* scratch_;           // private to the instance
  int64_t shared_scratch_;  // bytes of it, if shared memory is where it is

  TW_INLINE int64_t index() const { return index_; }
  TW_INLINE int phase() const { return phase_; }
  TW_INLINE bool streaming() const { return false; }
  template <class T>
  TW_INLINE T* workspace() const {
    return static_cast<T*>(workspace_);
  }
  template <class T>
  TW_INLINE T* scratch() const {
    return static_cast<T*>(scratch_);
  }
  TW_INLINE int64_t shared_scratch() const { return shared_scratch_; }
#if defined(__CUDACC__)
  __device__ __forceinline__ static int thread() { return int(threadIdx.x); }
  __device__ __forceinline__ static int threads() { return int(blockDim.x); }
  /// Waits for the threads of the instance and makes their writes visible to each other.
  __device__ __forceinline__ static void sync() {
    if (blockDim.x > 32)
      __syncthreads();
    else
      __syncwarp(mask());
  }
  /// The threads of the instance among those of the warp.
  __device__ __forceinline__ static unsigned mask() {
    if (blockDim.x >= 32) return 0xffffffffu;
    const unsigned first = (threadIdx.y * blockDim.x) & 31u;
    return ((1u << blockDim.x) - 1u) << first;
  }
#endif
};

/// Registers of a thread at most, unless the kernel wants more.
template <class Kernel>
TW_DEVICE constexpr int max_registers() {
  if constexpr (requires { Kernel::kGpuRegisters; })
    return Kernel::kGpuRegisters;
  else
    return 64;
}
/// Blocks of kMaxThreads that a multiprocessor, with its 64 Ki registers, then holds.
template <class Kernel>
TW_DEVICE constexpr int min_blocks() {
  return 65536 / (kMaxThreads * max_registers<Kernel>());
}

/// What is launched: the kernel, or what it prepares on the host for every thread to use.
template <class Kernel>
TW_DEVICE auto device_kernel(const Kernel& kernel) {
  if constexpr (requires { kernel.template prepared<Program>(); })
    return kernel.template prepared<Program>();
  else
    return kernel;
}

/// What a launch tells the instances of one phase.
struct Launch {
  int64_t instances;
  int phase;
  void* workspace;
  void* scratch;  // scratch_bytes for each resident instance; null: shared memory
  int64_t scratch_bytes;
};

}  // namespace cuda
}  // namespace tw::tile

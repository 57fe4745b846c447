// The CUDA program: a group of threads works through an instance, each on its own lanes. The type
// is also known to the host, which asks kernels for their plan for it. Freestanding.
//
// threadIdx.x counts the threads of an instance, threadIdx.y the instances of a block. An instance
// has a whole block, or a power of two of at most 32 threads.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/compute_type.h"
#include "tilewright/tile/program.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/cluster.h"
#endif

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
/// Blocks of a cluster at most, on any GPU that has them, and columns of a span.
inline constexpr int kMaxRanks = 8, kSpan = 8;
/// Of a span for each thread of a multiprocessor that have 128 registers.
inline constexpr int64_t kResidentColumns = int64_t{512} * kSpan;

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

/// Threads of an instance that walks so many columns: up to a warp for `least` columns each, then
/// for `each`; whole warps from 33 threads on, powers of two below.
TW_INLINE constexpr int threads_for(int64_t columns, int each = kSlots * kSpan, int least = kSpan) {
  constexpr int64_t kWarp = 32;
  const int64_t warp_columns = kWarp * each;
  if (columns > warp_columns) {
    const int64_t warps = (columns + warp_columns - 1) / warp_columns;
    return warps * kWarp < kMaxThreads ? int(warps * kWarp) : kMaxThreads;
  }
  int threads = 1;
  while (threads < kWarp && threads * least < columns) threads *= 2;
  return threads;
}

static_assert(kSpan == Plan::kColumnsOfLane && kSlots * kSpan == Plan::kColumnsOfThread);

/// Blocks of an instance whose threads take `spans` spans of a row while there are blocks for it.
TW_INLINE constexpr int ranks_for(int64_t columns, int spans) {
  int ranks = 1;
  while (ranks < kMaxRanks && int64_t{ranks} * kMaxThreads * kSpan * spans < columns) ranks *= 2;
  return ranks;
}

/// Threads of an instance in a block, and its blocks: a cluster, where a GPU has clusters and the
/// plan is of a spread program, whose threads take `spans` spans of a row.
struct InstanceThreads {
  int threads, ranks;
};
TW_INLINE constexpr InstanceThreads threads_of(const Plan& plan, int spans, int phase,
                                               bool has_clusters) {
  const int64_t columns = plan.columns[phase];
  const int ranks = spans > 0 && has_clusters ? ranks_for(columns, spans) : 1;
  const int of_thread = spans > 0 ? spans * kSpan : plan.row_columns;
  const int64_t of_rank = (columns + ranks - 1) / ranks;
  return {of_thread > 0 ? threads_for(of_rank, of_thread, of_thread) : threads_for(of_rank), ranks};
}

struct Program {
  static constexpr bool kOnGpu = true;
  static constexpr int kSpans = 0;  // of a thread, where an instance may have several blocks
  /// 16 bytes of a 16-bit type, widened: what one thread loads and stores at a time.
  template <class C = float>
  static constexpr int kLanes = same_type<C, float> ? 8 : 16 / int(sizeof(C));
  template <class C>
  using Vec = Pack<C, kLanes<C>>;

  /// Scratch of turn_block.
  template <class U>
  static constexpr int64_t kTurnedBytes = TurnedBlock<U>::kBytes;

  /// Of programs that add up rows (sums.h): lanes of their threads, the columns that the plan is
  /// over, and its scratch, the lanes' sums.
  static constexpr int kSumThreads = 256;
  static constexpr int64_t kSumColumns = int64_t{kSumThreads} * kSpan * kSlots;
  template <class C>
  static constexpr int64_t kSumLanes = int64_t{kSumThreads} * kLanes<C>;
  template <class C>
  static constexpr int64_t kSumBytes = kSumLanes<C> * int64_t{sizeof(C)};

  /// Of programs that draw random words (philox_block.h): columns that the plan is over at least, a
  /// warp's; words of its scratch for each warp, eight for a lane and some between them; and the
  /// scratch of all.
  static constexpr int64_t kDrawnColumns = 32 * kSpan;
  static constexpr int kDrawnWords = 8 * (32 + 8);
  TW_INLINE static int64_t drawn_bytes(int64_t columns) {
    return threads_for(columns) / 32 * kDrawnWords * int64_t{sizeof(uint32_t)};
  }

  /// A program has one row: the blocks of a multiprocessor overlap each other.
  TW_INLINE static int64_t row_groups(int64_t rows, int64_t, const Machine&) { return rows; }
  /// Spans of a row of T that a thread keeps for arithmetic in C, in 16 registers at most, and
  /// their columns.
  template <class C, class T>
  static constexpr int kKeptSpans =
      kSlots * kLanes<C> * int(sizeof(T)) <= 64 ? kSlots : 64 / (kLanes<C> * int(sizeof(T)));
  template <class C, class T>
  static constexpr int kKeptColumns = kKeptSpans<C, T> * kLanes<C>;
  /// Bytes of a row that shared memory keeps: what registers do not; of rows of short elements that
  /// are not whole spans all, in whole spans.
  template <class C, class T>
  TW_INLINE static constexpr int64_t kept_bytes(int64_t cols) {
    constexpr int64_t kN = kLanes<C>;
    constexpr int kEach = kKeptColumns<C, T>;
    const int64_t left = cols - int64_t{threads_for(cols, kEach, kEach)} * kEach;
    const bool is_whole = sizeof(T) > 4 || cols % kN == 0;
    const int64_t count =
        is_whole ? left : (cols + 2 * kN - 2) / kN * kN;  // the first may be short
    const int64_t bytes = count * int64_t{sizeof(T)};
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

/// What the blocks of a cluster tell each other, in each block's shared memory: one reduction is
/// read while the next one arrives.
struct Exchange {
  double told[2][kMaxRanks];
#if defined(__CUDACC__)
  Mbarrier full[2];
#endif
};

/// A program whose threads may be those of several blocks, a cluster: so registers hold rows that
/// one block's do not. Its instances walk several rows.
template <int kThreadSpans>
struct SpreadProgram : Program {
  static constexpr int kSpans = kThreadSpans;
  template <class C, class T>
  static constexpr int kKeptSpans = kSpans;
  template <class C, class T>
  TW_INLINE static constexpr int64_t kept_bytes(int64_t) {
    return 0;
  }
  /// How many a GPU has room for; at most `most`. Clusters leave some multiprocessors out.
  TW_INLINE static int64_t programs_at_once(int64_t cols, int64_t most) {
    const int64_t multiprocessors = ranks_for(cols, kSpans) > 1 ? 128 : 132;
    const int64_t columns = multiprocessors * kResidentColumns * kSpans;
    return cols * most <= columns ? most : columns < cols ? 1 : index_quotient(columns, cols);
  }
  /// Four times as many programs, so that the last ones hardly wait for each other.
  TW_INLINE static int64_t rows_per_program(int64_t rows, int64_t cols) {
    const int64_t programs = programs_at_once(cols, 4096) * 4;
    return rows <= programs ? rows > 0 : index_quotient(rows + programs - 1, programs);
  }
  TW_INLINE static int64_t row_groups(int64_t rows, int64_t cols, const Machine&) {
    const int64_t count = rows_per_program(rows, cols);
    return count == 0 ? 0 : (rows + count - 1) / count;
  }
  int rank_, ranks_;
  Exchange* exchange_;
  int* turns_;

#if defined(__CUDACC__)
  __device__ __forceinline__ int thread() const {
    return rank_ * int(blockDim.x) + int(threadIdx.x);
  }
  __device__ __forceinline__ int threads() const { return ranks_ * int(blockDim.x); }
  __device__ __forceinline__ void sync() const {
#if __CUDA_ARCH__ >= 900
    if (ranks_ > 1) return cluster_sync();
#endif
    Program::sync();
  }
#endif
};

/// A program of a kernel that has several ways, or variants.
template <class P, int kOf, int kOfVariant>
struct OnWay : P {
  static constexpr int kWay = kOf, kVariant = kOfVariant;
};

template <class P>
TW_DEVICE constexpr int way_of_program() {
  if constexpr (requires { P::kWay; })
    return P::kWay;
  else
    return 0;
}

/// The program of a kernel: spread, if it says how many spans of a row its threads take.
template <class Kernel>
TW_DEVICE constexpr int spans_of() {
  if constexpr (requires { Kernel::kGpuSpans; })
    return Kernel::kGpuSpans;
  else
    return 0;
}
template <int kSpans>
struct ProgramOf {
  using type = SpreadProgram<kSpans>;
};
template <>
struct ProgramOf<0> {
  using type = Program;
};
template <class Kernel>
using program_t = typename ProgramOf<spans_of<Kernel>()>::type;

/// Blocks of kMaxThreads that a multiprocessor, with its 64 Ki registers, then holds.
template <class Kernel>
TW_DEVICE constexpr int min_blocks() {
  return 65536 / (kMaxThreads * gpu_registers<Kernel>());
}

struct AnyOperands {
  template <class... Operand>
  TW_DEVICE void operator()(const Operand&...) const {}
};
template <class Kernel>
inline constexpr bool has_row_operands = requires(Kernel k) { k.row_operands(AnyOperands{}); };
/// How many ways a kernel has for one of its variants (tile/program.h).
template <class Kernel>
TW_DEVICE constexpr int ways_of_variant() {
  if constexpr (requires { Kernel::kGpuWays; })
    return Kernel::kGpuWays;
  else
    return has_row_operands<Kernel> ? 2 : 1;
}
/// How many ways it has: those for a variant follow each other.
template <class Kernel>
TW_DEVICE constexpr int ways_of() {
  return ways_of_variant<Kernel>() * gpu_variants<Kernel>();
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

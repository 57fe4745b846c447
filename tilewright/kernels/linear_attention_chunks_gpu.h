// Which calls of linear_attention are cut into chunks on a GPU (linear_attention_chunks.h), and
// their programs.
#pragma once

#include "tilewright/kernels/linear_attention_gated_weights_gpu.h"
#include "tilewright/kernels/linear_attention_walk_gpu.h"

namespace tw::kernels {

struct LinearChunksOnGpu {
  /// Of 64, 128 and 256 dimensions, with gates of each or one of all, without and with the delta
  /// rule.
  static constexpr int kWays = 12;

  /// The kernel's chunks; of no dimensions where it is not to be cut.
  template <template <class, class> class Kernel, class T, class U>
  TW_INLINE static LinearChunks of(const Kernel<T, U>& kernel) {
    LinearChunks out{};
    const bool keeps_ends = !kernel.states || kernel.chunk_size % LinearChunks::kSteps == 0;
    if (sizeof(T) != 2 || kernel.length() < LinearChunks::kFewest || !keeps_ends) return out;
    out.dims = LinearChunks::built_dims(kernel.q.size(3));
    out.key_terms = tile::same_type<T, bf16> ? 1 : 2;
    out.is_corrected = bool(kernel.beta);
    out.has_one_gate = kernel.g.stride(3) == 0 || kernel.g.size(3) == 1;
    out.reads_rows = tile::same_type<T, bf16> && out.has_one_gate && has_aligned_rows(kernel.q) &&
                     has_aligned_rows(kernel.k);
    out.copies_values = has_aligned_rows(kernel.v);
    out.states = kernel.v.size(0) * kernel.v.size(2);
    out.chunks = (kernel.length() + LinearChunks::kSteps - 1) / LinearChunks::kSteps;
    out.columns = kernel.v.size(3);
    return out;
  }
  /// Of kWays, or -1.
  template <class Kernel>
  TW_INLINE static int way(const Kernel& kernel, int64_t shared_bytes) {
    const LinearChunks chunks = of(kernel);
    if (chunks.dims == 0 || goes_step_by_step(chunks)) return -1;
    if (chunks.plan(shared_bytes).scratch_bytes > shared_bytes) return -1;
    const int size = chunks.dims == 64 ? 0 : chunks.dims == 128 ? 1 : 2;
    return 4 * size + (chunks.has_one_gate ? 2 : 0) + (chunks.is_corrected ? 1 : 0);
  }

#if defined(__CUDACC__)
  template <int kWay, class T, class U, class P, class Kernel>
  __device__ __forceinline__ static void run(P p, const Kernel& kernel) {
    constexpr int kDims = 64 << kWay / 4;
    constexpr bool kHasOneGate = kWay / 2 % 2 == 1, kIsCorrected = kWay % 2 == 1;
    const LinearChunks chunks = of(kernel);
    if (p.phase() == 1)
      LinearChunkWalk<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>(p, kernel, chunks).go();
    else if constexpr (kHasOneGate)
      LinearChunkWeights<P, T, U, Kernel, kDims, kIsCorrected>(p, kernel, chunks).go();
    else
      LinearChunkGatedWeights<P, T, U, Kernel, kDims, kIsCorrected>(p, kernel, chunks).go();
  }
#endif

 private:
  /// Many small states keep a GPU busy step by step, and gates of each dimension cost more in
  /// chunks (docs/notes/gpu_survey.md, "Linear attention by chunks").
  TW_INLINE static bool goes_step_by_step(const LinearChunks& chunks) {
    return !chunks.has_one_gate && chunks.dims <= 128 && chunks.states > 2 * chunks.dims;
  }
  template <class T>
  TW_INLINE static bool has_aligned_rows(const View<const T, 4>& x) {
    const int64_t steps = x.stride(0) | x.stride(1) | x.stride(2);
    return x.stride(3) == 1 &&
           (reinterpret_cast<uint64_t>(x.data) | uint64_t(steps) * sizeof(T)) % 16 == 0;
  }
};

}  // namespace tw::kernels

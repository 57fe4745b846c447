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
  template <int kWay>
  static constexpr int kDims = 64 << kWay / 4;
  template <int kWay>
  static constexpr bool kHasOneGate = kWay / 2 % 2 == 1;
  template <int kWay>
  static constexpr bool kIsCorrected = kWay % 2 == 1;

  /// The kernel's chunks; of no dimensions where it is not to be cut.
  template <class Kernel>
  TW_INLINE static LinearChunks of(const Kernel& kernel) {
    const bool keeps_ends = !kernel.states || kernel.chunk_size % LinearChunks::kSteps == 0;
    return keeps_ends ? of_rows(kernel) : LinearChunks{};
  }
  /// Of its gradient, too.
  template <template <class, class> class Kernel, class T, class U>
  TW_INLINE static LinearChunks of_rows(const Kernel<T, U>& kernel) {
    LinearChunks out{};
    if (sizeof(T) != 2 || kernel.length() < LinearChunks::kFewest) return out;
    out.dims = LinearChunks::built_dims(kernel.q.size(3));
    out.key_terms = tile::same_type<T, bf16> ? 1 : 2;
    out.is_corrected = bool(kernel.beta);
    out.is_backward = Kernel<T, U>::kIsBackward;
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
    return way_of_chunks(chunks);
  }
  TW_INLINE static int way_of_chunks(const LinearChunks& chunks) {
    const int size = chunks.dims == 64 ? 0 : chunks.dims == 128 ? 1 : 2;
    return 4 * size + (chunks.has_one_gate ? 2 : 0) + (chunks.is_corrected ? 1 : 0);
  }
  template <class T>
  TW_INLINE static bool has_aligned_rows(const View<const T, 4>& x) {
    const int64_t steps = x.stride(0) | x.stride(1) | x.stride(2);
    return x.stride(3) == 1 &&
           (reinterpret_cast<uint64_t>(x.data) | uint64_t(steps) * sizeof(T)) % 16 == 0;
  }

#if defined(__CUDACC__)
  /// The same of a call that goes this way: sizes that the way knows are constants.
  template <int kWay, class Kernel>
  __device__ __forceinline__ static LinearChunks of_way(const Kernel& kernel) {
    LinearChunks out = of_rows(kernel);
    out.dims = kDims<kWay>;
    out.has_one_gate = kHasOneGate<kWay>;
    out.is_corrected = kIsCorrected<kWay>;
    out.reads_rows = kHasOneGate<kWay> && out.reads_rows;
    return out;
  }
  template <int kWay, class T, class U, class P, class Kernel>
  __device__ __forceinline__ static void run(P p, const Kernel& kernel) {
    const LinearChunks chunks = of_way<kWay>(kernel);
    if (p.phase() == 0) return weigh<kWay, T, U>(p, kernel, chunks);
    LinearChunkWalk<P, T, U, Kernel, kDims<kWay>, kHasOneGate<kWay>, kIsCorrected<kWay>>(p, kernel,
                                                                                         chunks)
        .go();
  }
  /// The first phase.
  template <int kWay, class T, class U, class P, class Kernel>
  __device__ __forceinline__ static void weigh(P p, const Kernel& kernel,
                                               const LinearChunks& chunks) {
    constexpr bool kCorrects = kIsCorrected<kWay>;
    if constexpr (kHasOneGate<kWay>)
      LinearChunkWeights<P, T, U, Kernel, kDims<kWay>, kCorrects>(p, kernel, chunks).go();
    else
      LinearChunkGatedWeights<P, T, U, Kernel, kDims<kWay>, kCorrects>(p, kernel, chunks).go();
  }
#endif

 private:
  /// Many small states keep a GPU busy step by step, and gates of each dimension cost more in
  /// chunks (docs/notes/gpu_survey.md, "Linear attention by chunks").
  TW_INLINE static bool goes_step_by_step(const LinearChunks& chunks) {
    return !chunks.has_one_gate && chunks.dims <= 128 && chunks.states > 2 * chunks.dims;
  }
};

}  // namespace tw::kernels

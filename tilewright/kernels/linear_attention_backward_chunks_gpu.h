// Which calls of linear_attention_backward are cut into chunks on a GPU
// (linear_attention_backward_chunks.h), and their programs.
#pragma once

#include "tilewright/kernels/linear_attention_chunks_gpu.h"
#include "tilewright/kernels/linear_attention_gradients_gpu.h"
#include "tilewright/kernels/linear_attention_walk_back_gpu.h"

namespace tw::kernels {

struct LinearBackwardChunksOnGpu {
  static constexpr int kWays = LinearChunksOnGpu::kWays;

  template <class Kernel>
  TW_INLINE static LinearBackwardChunks of_chunks(const Kernel& kernel,
                                                  const LinearChunks& chunks) {
    LinearBackwardChunks out{};
    out.chunks = chunks;
    out.heads = kernel.v.size(2);
    out.key_heads = kernel.q.size(2);
    out.rows = kernel.q.size(0) * kernel.q.size(1) * kernel.q.size(2);
    out.copies_grads = LinearChunksOnGpu::has_aligned_rows(kernel.grad);
    return out;
  }
  template <class Kernel>
  TW_INLINE static LinearBackwardChunks of(const Kernel& kernel) {
    return of_chunks(kernel, LinearChunksOnGpu::of_rows(kernel));
  }
  /// Of kWays, or -1.
  template <class Kernel>
  TW_INLINE static int way(const Kernel& kernel, int64_t shared_bytes) {
    const LinearBackwardChunks with = of(kernel);
    if (with.chunks.dims == 0 || with.chunks.states * with.chunks.columns == 0) return -1;
    if (with.plan(shared_bytes).scratch_bytes > shared_bytes) return -1;
    return LinearChunksOnGpu::way_of_chunks(with.chunks);
  }

#if defined(__CUDACC__)
  template <int kWay, class T, class U, class P, class Kernel>
  __device__ __forceinline__ static void run(P p, const Kernel& kernel) {
    constexpr int kDims = LinearChunksOnGpu::kDims<kWay>;
    constexpr bool kHasOneGate = LinearChunksOnGpu::kHasOneGate<kWay>,
                   kIsCorrected = LinearChunksOnGpu::kIsCorrected<kWay>;
    const LinearBackwardChunks with = of_chunks(kernel, LinearChunksOnGpu::of_way<kWay>(kernel));
    if (p.phase() == 0) return LinearChunksOnGpu::weigh<kWay, T, U>(p, kernel, with.chunks);
    if (p.phase() == 1)
      return walk<LinearStatesForth<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>,
                  LinearStatesBack<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>>(p, kernel,
                                                                                       with);
    using Gradients = LinearChunkGradients<P, T, U, Kernel, kDims, kHasOneGate, kIsCorrected>;
    if (p.phase() == 2) return Gradients(p, kernel, with).go();
    add_heads<Gradients, T>(p, kernel, with);
  }

 private:
  /// Half the programs go forth.
  template <class Forth, class Back, class P, class Kernel>
  __device__ __forceinline__ static void walk(P p, const Kernel& kernel,
                                              const LinearBackwardChunks& with) {
    const int groups = p.threads() / 32 / LinearChunks::kWarps;
    const int64_t count = with.chunks.states * with.chunks.blocks(groups);
    if (p.index() < count)
      Forth(p, kernel, with, p.index()).go();
    else
      Back(p, kernel, with, p.index() - count).go();
  }
#endif
};

}  // namespace tw::kernels

// The second phase of linear_attention_backward on a GPU, after linear_attention_backward_gpu.h.
#pragma once

#include "tilewright/kernels/linear_attention_backward_gpu.h"

namespace tw::kernels {

#if defined(__CUDACC__)

/// Adds up what blocks, and heads that share keys, have of some rows.
template <class P, class T, class U, class Kernel>
struct LinearBackwardSums {
  P p;
  const Kernel& of;
  const LinearBackwardOnGpu& with;

  __device__ __forceinline__ void run() const {
    const int64_t first = p.index() * with.kFoldedRows, heads = of.q.size(2);
    const int64_t left = of.q.size(0) * with.steps * heads - first;
    const int dims = int(with.dims), count = int(tile::lesser(left, with.kFoldedRows)) * dims;
    TW_ROLLED
    for (int i = p.thread(); i < count; i += p.threads()) {
      const int n = i / dims, d = i - n * dims;
      const int64_t row = index_quotient(first + n, heads), head = first + n - row * heads;
      const int64_t b = index_quotient(row, with.steps), t = row - b * with.steps;
      float q = 0, k = 0;
      for (int64_t h = head * of.group(); h < (head + 1) * of.group(); ++h) {
        q += add_parts(b, t, h, d);
        k += add_parts(b, t, h, with.dims + d);
        of.g_grad(b, t, h, d) = U(add_parts(b, t, h, 2 * with.dims + d));
        if (d == 0 && of.beta_grad)
          of.beta_grad(b, t, h) = U(add_parts(b, t, h, with.kSums * with.dims));
      }
      of.q_grad(b, t, head, d) = T(q);
      of.k_grad(b, t, head, d) = T(k);
    }
  }

 private:
  __device__ __forceinline__ float add_parts(int64_t b, int64_t t, int64_t h, int64_t i) const {
    const int64_t all = with.batch * with.steps * with.heads * with.row_floats();
    const float* from = p.template workspace<float>() + with.programs() * with.kept_floats() +
                        ((b * with.steps + t) * with.heads + h) * with.row_floats() + i;
    float sum = 0;
    for (int64_t part = 0; part < with.parts(); ++part, from += all) sum += *from;
    return sum;
  }
};

#endif

}  // namespace tw::kernels

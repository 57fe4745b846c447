// Matrix multiplication on any GPU, for any strides and sizes: out = activation(alpha a b^T + bias)
// + residual, float32 products and sums. Float32 operands always come here: the matrix units would
// round them. Also what no tensor map can describe.
//
// A block of 256 threads computes 128 x 128 elements, 8 x 8 a thread, from 128 x 8 elements of both
// operands in shared memory; the next ones are on their way in registers.
#pragma once

#include "tilewright/core/view.h"

namespace tw::kernels {

/// What the host gives.
template <class T>
struct GemmStridedArguments {
  Rows<const T> a;                      // [m, k]
  Rows<const T> b;                      // [n, k]
  Rows<const T> residual;               // [m, n], or absent
  View<const T, 1> bias;                // [n], or absent
  Rows<T> out;                          // [m, n], may alias residual
  int64_t a_batch, b_batch, out_batch;  // strides of the batch
  int64_t batch, k;
  float alpha;
  int activation;  // an Activation
};

inline constexpr int kGemmStridedTile = 128, kGemmStridedThreads = 256;

}  // namespace tw::kernels

#if defined(__CUDACC__)
#include "tilewright/kernels/activation.h"

namespace tw::kernels {

template <class T>
struct GemmStrided {
  static constexpr int kTile = kGemmStridedTile, kDepth = 8, kPitch = kTile + 4;
  using Panel = float[kDepth][kPitch];
  using Sums = float[8][8];
  const GemmStridedArguments<T>& given;

  /// A thread's four elements of an operand: neighbours along k if k is innermost, else one row's
  /// with neighbouring threads on neighbouring rows.
  struct Loader {
    const T* row;
    int64_t k, stride;
    int at_row, at_k;

    __device__ Loader(const Rows<const T>& from, int64_t batch_offset, int64_t first, int64_t depth)
        : k(depth), stride(from.col_stride) {
      const int thread = int(threadIdx.x);
      at_row = stride == 1 ? thread / 2 : thread % kTile;
      at_k = (stride == 1 ? thread % 2 : thread / kTile) * 4;
      row = first + at_row < from.rows ? from.row(first + at_row).data + batch_offset : nullptr;
    }
    __device__ void load(float (&x)[4], int64_t from) const {
      TW_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int64_t at = from + at_k + i;
        x[i] = row != nullptr && at < k ? float(row[at * stride]) : 0.0f;
      }
    }
    __device__ void store(Panel& panel, const float (&x)[4]) const {
      TW_UNROLL
      for (int i = 0; i < 4; ++i) panel[at_k + i][at_row] = x[i];
    }
  };

  __device__ void operator()(Panel& a_panel, Panel& b_panel) const {
    const int64_t columns = (given.out.cols + kTile - 1) / kTile;
    const int64_t row = int64_t(blockIdx.x) / columns * kTile;
    const int64_t column = int64_t(blockIdx.x) % columns * kTile;
    for (int64_t batch = blockIdx.y; batch < given.batch; batch += gridDim.y) {
      Sums sums = {};
      const Loader a(given.a, batch * given.a_batch, row, given.k);
      const Loader b(given.b, batch * given.b_batch, column, given.k);
      float next_a[4], next_b[4];
      a.load(next_a, 0);
      b.load(next_b, 0);
      for (int64_t k = 0; k < given.k; k += kDepth) {
        a.store(a_panel, next_a);
        b.store(b_panel, next_b);
        __syncthreads();
        a.load(next_a, k + kDepth);
        b.load(next_b, k + kDepth);
        multiply(a_panel, b_panel, sums);
        __syncthreads();
      }
      store(sums, row, column, batch);
    }
  }

  /// Row or column i of the 8 x 8 of a thread, in two groups of four.
  __device__ static int place(int thread, int i) {
    return i / 4 * (kTile / 2) + thread * 4 + i % 4;
  }

  __device__ static void multiply(const Panel& a, const Panel& b, Sums& sums) {
    const int y = int(threadIdx.x) / 16, x = int(threadIdx.x) % 16;
    TW_UNROLL
    for (int k = 0; k < kDepth; ++k) {
      float left[8], right[8];
      TW_UNROLL
      for (int i = 0; i < 8; ++i) {
        left[i] = a[k][place(y, i)];
        right[i] = b[k][place(x, i)];
      }
      TW_UNROLL
      for (int i = 0; i < 8; ++i) TW_UNROLL
      for (int j = 0; j < 8; ++j) sums[i][j] += left[i] * right[j];
    }
  }

  /// Not inlined: 64 copies of it would be most of the kernel.
  __device__ __noinline__ static float activated(float x, int activation) {
    with_activation(Activation(activation), [&](auto activate) { x = activate(x); });
    return x;
  }

  __device__ void store(const Sums& sums, int64_t row, int64_t column, int64_t batch) const {
    const int y = int(threadIdx.x) / 16, x = int(threadIdx.x) % 16;
    TW_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int64_t r = row + place(y, i);
      if (r >= given.out.rows) continue;
      const View<T, 1> out = given.out.row(r);
      View<const T, 1> residual{};
      if (given.residual) residual = given.residual.row(r);
      TW_UNROLL
      for (int j = 0; j < 8; ++j) {
        const int64_t c = column + place(x, j);
        if (c >= given.out.cols) continue;
        float value = sums[i][j] * given.alpha;
        if (given.bias) value += float(given.bias(c));
        if (given.activation != 0) value = activated(value, given.activation);
        if (residual) value += float(residual(c));
        out.data[batch * given.out_batch + c * out.strides[0]] = T(value);
      }
    }
  }
};

}  // namespace tw::kernels
#endif

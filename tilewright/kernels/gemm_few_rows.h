// Few rows of a float32 product on any GPU, which is bound by reading b: a block computes four
// columns of out, and its threads share k. The sums of an element are added in the same order
// whatever the other rows are.
#pragma once

#include "tilewright/kernels/gemm_strided_build.h"
#if defined(__CUDACC__)
#include "tilewright/kernels/gemm_strided.h"
#endif

namespace tw::kernels {

struct GemmFewRowsBuild {
  static constexpr int kThreads = 256, kColumns = 4;  // of a block
  static constexpr int kRows[] = {1, 4};              // at most, of each build
  static constexpr int kCount = 2;

  /// The build that takes a product, or -1: both operands in words of 16 bytes along k, and enough
  /// columns for the chip.
  static constexpr int choose(const GemmStridedArguments<float>& of, int multiprocessors) {
    const int64_t rows = of.out.rows, columns = of.out.cols;
    if (rows > kRows[kCount - 1] || columns < int64_t{kColumns} * multiprocessors) return -1;
    if (of.k < kThreads || !is_aligned(of.a) || !is_aligned(of.b)) return -1;
    return rows > kRows[0] ? 1 : 0;
  }

 private:
  static constexpr bool is_aligned(const GemmStridedOperand<float>& of) {
    constexpr int64_t kWord = 4;  // elements
    return of.rows.lead == 1 && of.rows.col_stride == 1 && of.batch_stride % kWord == 0 &&
           (of.rows.rows == 1 || of.rows.lead_strides[0] % kWord == 0) &&
           reinterpret_cast<uint64_t>(of.rows.data) % 16 == 0;
  }
};

}  // namespace tw::kernels

#if defined(__CUDACC__)
namespace tw::kernels {

template <int kRows>
struct GemmFewRows {
  static constexpr int kThreads = GemmFewRowsBuild::kThreads, kWarps = kThreads / 32;
  static constexpr int kColumns = GemmFewRowsBuild::kColumns;
  using Sums = float[kRows][kColumns];
  const GemmStridedArguments<float>& given;

  __device__ void operator()() const {
    __shared__ Sums of_warps[kWarps];
    const int64_t column = int64_t{blockIdx.x} * kColumns;
    for (int64_t batch = blockIdx.y; batch < given.batch; batch += gridDim.y) {
      Sums sums = {};
      multiply(batch, column, sums);
      add_lanes(sums, of_warps);
      __syncthreads();
      store(of_warps, batch, column);
      __syncthreads();
    }
  }

 private:
  /// A row of an operand; one that is not there has no element of out.
  const __device__ static float* row_of(const GemmStridedOperand<float>& from, int64_t batch,
                                        int64_t row) {
    const int64_t last = from.rows.rows - 1;
    return from.rows.data + batch * from.batch_stride +
           (row < last ? row : last) * from.rows.lead_strides[0];
  }

  __device__ void multiply(int64_t batch, int64_t column, Sums& sums) const {
    const float *a[kRows], *b[kColumns];
    TW_UNROLL
    for (int i = 0; i < kRows; ++i) a[i] = row_of(given.a, batch, i);
    TW_UNROLL
    for (int j = 0; j < kColumns; ++j) b[j] = row_of(given.b, batch, column + j);
    const int64_t words = given.k / 4;
    int64_t at = threadIdx.x;
    for (; at + kThreads < words; at += 2 * kThreads) add<2>(a, b, at, sums);
    if (at < words) add<1>(a, b, at, sums);
    const int64_t rest = words * 4 + threadIdx.x;
    if (rest < given.k) {
      TW_UNROLL
      for (int i = 0; i < kRows; ++i) TW_UNROLL
      for (int j = 0; j < kColumns; ++j) sums[i][j] += a[i][rest] * b[j][rest];
    }
  }

  /// kWords words of all rows, those of b on their way together.
  template <int kWords>
  __device__ __forceinline__ static void add(const float* const (&a)[kRows],
                                             const float* const (&b)[kColumns], int64_t at,
                                             Sums& sums) {
    float4 words[kWords][kColumns];
    TW_UNROLL
    for (int w = 0; w < kWords; ++w) TW_UNROLL
    for (int j = 0; j < kColumns; ++j)
      words[w][j] = reinterpret_cast<const float4*>(b[j])[at + w * kThreads];
    TW_UNROLL
    for (int w = 0; w < kWords; ++w) TW_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const float4 x = reinterpret_cast<const float4*>(a[i])[at + w * kThreads];
      TW_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const float4& y = words[w][j];
        sums[i][j] += x.x * y.x;
        sums[i][j] += x.y * y.y;
        sums[i][j] += x.z * y.z;
        sums[i][j] += x.w * y.w;
      }
    }
  }

  /// Of each warp, into shared memory.
  __device__ static void add_lanes(const Sums& sums, Sums (&of_warps)[kWarps]) {
    TW_UNROLL
    for (int i = 0; i < kRows; ++i) TW_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      float x = sums[i][j];
      TW_UNROLL
      for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(~0u, x, apart);
      if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][i][j] = x;
    }
  }

  /// A thread has a row.
  __device__ void store(const Sums (&of_warps)[kWarps], int64_t batch, int64_t column) const {
    const int row = int(threadIdx.x);
    if (row >= kRows || row >= given.out.rows) return;
    tile::Pack<float, 4> total = {};
    for (int w = 0; w < kWarps; ++w) {
      const auto& of = of_warps[w][row];
      total = total + tile::Pack<float, 4>{{of[0], of[1], of[2], of[3]}};
    }
    const GemmStridedEpilogue<float> epilogue{given};
    epilogue.store(total, batch, row, epilogue.columns(column));
  }
};

}  // namespace tw::kernels
#endif

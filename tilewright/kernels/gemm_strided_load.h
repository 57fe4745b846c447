// How the matrix multiplication for any GPU brings panels of an operand into shared memory.
#pragma once

#include "tilewright/kernels/gemm_strided_build.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/vector.h"

namespace tw::kernels {

/// A thread's part in bringing kTile rows of an operand, which is transposed on the way: a thread
/// reads neighbouring rows of a panel at once. Copied behind the threads' back.
template <class T, GemmStridedBuild kBuild, int kTile>
class GemmStridedLoader {
  static constexpr int kThreads = kBuild.threads(), kDepth = kBuild.depth;
  static_assert(tile::same_type<T, float>);

  // Along k: 8 values of it and 4 rows of a warp are 32 banks.
  static constexpr int kAlong = 8, kAcross = kThreads / kAlong;
  static constexpr int kAlongPasses = kDepth / kAlong, kAcrossPasses = kTile / kAcross;
  static constexpr int kElements = kAlongPasses * kAcrossPasses;  // of a thread
  static constexpr int kStep = kThreads / kTile;                  // in k, along rows
  static constexpr int kVectorStep = 4 * kThreads / kTile;        // in k, of vectors
  static_assert(kDepth % kAlong == 0 && kTile % kAcross == 0 && kThreads % kTile == 0);

 public:
  using Panel = float[kDepth][GemmStridedBuild::pitch(kTile)];
  using Table = const T* [kTile];

  /// `first` row and `first_k` of the tile. The table is read after a barrier.
  __device__ GemmStridedLoader(const GemmStridedOperand<T>& from, int64_t batch, int64_t first,
                               int64_t first_k, Table& table)
      : table_(table), loads_(from.loads), stride_(from.rows.col_stride) {
    const int thread = int(threadIdx.x);
    const auto row = [&](int64_t i) {  // one that is not there has no element of out
      const int64_t last = from.rows.rows - 1;
      return from.rows.row(i < last ? i : last).data + batch * from.batch_stride;
    };
    if (loads_ == GemmStridedLoads::kVectors) {
      at_row_ = thread % (kTile / 4) * 4, at_k_ = thread / (kTile / 4);
      const int64_t left = from.rows.rows - first - at_row_;
      bytes_ = left <= 0 ? 0 : left < 4 ? int(left) * 4 : 16;
      row_ = from.rows.data + batch * from.batch_stride + (left > 0 ? first + at_row_ : 0);
    } else if (loads_ == GemmStridedLoads::kAlongK) {
      at_row_ = thread / kAlong, at_k_ = thread % kAlong;
      for (int i = thread; i < kTile; i += kThreads) table[i] = row(first + i);
    } else {
      at_row_ = thread % kTile, at_k_ = thread / kTile;
      row_ = row(first + at_row_);
    }
    offset_ = (first_k + at_k_) * stride_;
  }

  /// Starts to bring the next panel, of which `left` values of k exist.
  __device__ __forceinline__ void begin(Panel& panel, int left) {
    if (loads_ == GemmStridedLoads::kVectors) {
      TW_UNROLL
      for (int k = 0; k < kDepth; k += kVectorStep)
        if (kVectorStep <= kDepth || at_k_ < kDepth)
          tile::cuda::copy_async_or_zero<16>(&panel[at_k_ + k][at_row_],
                                             row_ + offset_ + k * stride_,
                                             at_k_ + k < left ? bytes_ : 0);
    } else {
      each([&](int k, int row, const T* from) {
        tile::cuda::copy_async_or_zero<4>(&panel[k][row], from, k < left ? 4 : 0);
      });
    }
    offset_ += kDepth * stride_;
  }

 private:
  /// f(k, row, address) of each element of a thread.
  template <class F>
  __device__ __forceinline__ void each(F f) const {
    if (loads_ == GemmStridedLoads::kAlongK) {
      TW_UNROLL
      for (int i = 0; i < kAcrossPasses; ++i) {
        const int row = at_row_ + i * kAcross;
        const T* from = table_[row] + offset_;
        TW_UNROLL
        for (int j = 0; j < kAlongPasses; ++j) f(at_k_ + j * kAlong, row, from + j * kAlong);
      }
    } else {
      TW_UNROLL
      for (int i = 0; i < kElements; ++i)
        f(at_k_ + i * kStep, at_row_, row_ + offset_ + i * kStep * stride_);
    }
  }

  Table& table_;
  GemmStridedLoads loads_;
  const T* row_ = nullptr;
  int64_t stride_, offset_;  // along k
  int at_row_, at_k_, bytes_ = 0;
};

}  // namespace tw::kernels

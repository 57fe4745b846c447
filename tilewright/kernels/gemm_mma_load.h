// How the matrix multiplication by the matrix instruction of a warp brings panels of an operand
// into shared memory.
#pragma once

#include "tilewright/kernels/gemm_mma_build.h"
#include "tilewright/tile/cuda/copy_async.h"

namespace tw::kernels {

/// A thread's part in bringing kTile rows of an operand, eight neighbours in memory at a time:
/// values of k of a row, or, where it lies across, rows of a value of k. Panels lie as the operand
/// does. Words are copied behind the threads' back, anything else passes through registers, between
/// begin() and finish().
template <class T, GemmMmaBuild kBuild, int kTile, bool kCopies>
class GemmMmaLoader {
  static constexpr int kThreads = kBuild.threads(), kDepth = kBuild.depth;
  static constexpr int kGap = GemmMmaBuild::kGap, kEach = 8;
  static constexpr int kChunks = kTile * kDepth / kEach;
  static constexpr int kPasses = (kChunks + kThreads - 1) / kThreads;

 public:
  using Panel = T[kBuild.panel(kTile)];

  /// `first` row and `first_k` of the tile.
  __device__ __forceinline__ GemmMmaLoader(const GemmStridedOperand<T>& from, bool across,
                                           int64_t batch, int64_t first, int64_t first_k)
      : across_(across), k_stride_(from.rows.col_stride) {
    const Rows<const T>& rows = from.rows;
    const int64_t left = rows.rows - first;
    rows_ = left < kTile ? int(left) : kTile;
    const int64_t base = batch * from.batch_stride + first_k * k_stride_;
    TW_UNROLL
    for (int p = 0; p < kPasses; ++p) {
      const auto at = chunk(p);  // a row that is not there has no element of out
      if (across_)
        at_[p] = rows.data + base + first + at.inner + at.outer * k_stride_;
      else
        at_[p] =
            rows.row(first + (at.outer < rows_ ? at.outer : 0)).data + base + at.inner * k_stride_;
    }
    if constexpr (!kCopies) {
      end_ = rows.data + batch * from.batch_stride + (rows.cols - 1) * k_stride_ + 1;
      for (int d = 0; d < rows.lead; ++d) end_ += (rows.lead_sizes[d] - 1) * rows.lead_strides[d];
    }
  }

  /// Starts to bring the next panel, of which `left` values of k exist.
  __device__ __forceinline__ void begin(Panel& panel, int left) {
    TW_UNROLL
    for (int p = 0; p < kPasses; ++p) {
      if (!exists(p)) continue;
      const int count = count_of(p, left);
      if constexpr (kCopies) {
        tile::cuda::copy_async_or_zero<16>(to(panel, p), at_[p], count * int(sizeof(T)));
        at_[p] += kDepth * k_stride_;
      } else if (count > 0 && is_in_words(at_[p])) {
        load_words(held_[p], at_[p]);
      }
    }
  }
  /// Stores what begin() read; what it could not, element by element.
  __device__ __forceinline__ void finish(Panel& panel, int left) {
    if constexpr (kCopies) return;
    TW_UNROLL
    for (int p = 0; p < kPasses; ++p) {
      if (!exists(p)) continue;
      const int count = count_of(p, left);
      if (count <= 0)
        *reinterpret_cast<uint4*>(to(panel, p)) = {};
      else if (is_in_words(at_[p]))
        store_words(to(panel, p), held_[p], shift_of(at_[p]), count);
      else
        store_each(to(panel, p), at_[p], across_ ? 1 : k_stride_, count);
      at_[p] += kDepth * k_stride_;
    }
  }

  /// Of a panel that lies so, where lane `lane` reads a row of the 8 x 8 matrices for 16 rows, from
  /// `row` on, and 16 values of k: those of k follow on each other if kByK, else those of rows.
  template <bool kByK>
  __device__ __forceinline__ static int matrix(bool across, int lane, int row, int k) {
    const int low = lane % 8, second = lane / 8 % 2 * 8, fourth = lane / 16 * 8;
    row += (across ? 0 : low) + (kByK ? fourth : second);
    k += (across ? low : 0) + (kByK ? second : fourth);
    return across ? k * (kTile + kGap) + row : row * (kDepth + kGap) + k;
  }

 private:
  struct At {
    int outer, inner;
  };
  /// Words of four bytes that hold a chunk, wherever it begins.
  using Held = uint32_t[kEach / 2 + 1];

  __device__ __forceinline__ static int shift_of(const T* from) {
    return int(reinterpret_cast<uint64_t>(from) & 2) * 8;  // bits
  }
  /// Whether they end where the operand does, or before.
  __device__ __forceinline__ bool is_in_words(const T* from) const {
    return (across_ || k_stride_ == 1) && from + kEach + shift_of(from) / 16 <= end_;
  }
  __device__ __forceinline__ static void load_words(Held& held, const T* from) {
    const bool odd = shift_of(from) != 0;
    const auto* const words = reinterpret_cast<const uint32_t*>(from - odd);
    TW_UNROLL
    for (int i = 0; i < kEach / 2; ++i) held[i] = words[i];
    if (odd) held[kEach / 2] = words[kEach / 2];
  }
  /// `count` elements, then zero.
  __device__ __forceinline__ static void store_words(T* to, const Held& held, int shift,
                                                     int count) {
    uint32_t words[kEach / 2];
    TW_UNROLL
    for (int i = 0; i < kEach / 2; ++i) {
      const int left = count - 2 * i;
      const uint32_t mask = left >= 2 ? 0xffffffffu : left == 1 ? 0xffffu : 0u;
      words[i] = __funnelshift_r(held[i], held[i + 1], shift) & mask;
    }
    *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
  }
  __device__ __forceinline__ static void store_each(T* to, const T* from, int64_t stride,
                                                    int count) {
#pragma unroll 1
    for (int i = 0; i < kEach; ++i) to[i] = i < count ? from[i * stride] : T{};
  }

  /// Elements of a pass's chunk that exist, if any.
  __device__ __forceinline__ int count_of(int pass, int left) const {
    const auto at = chunk(pass);
    const int outer = across_ ? left : rows_, inner = across_ ? rows_ : left;
    const int some = inner - at.inner < kEach ? inner - at.inner : kEach;
    return at.outer < outer && some > 0 ? some : 0;
  }
  /// Of the thread's chunk of a pass.
  __device__ __forceinline__ At chunk(int pass) const {
    const int i = int(threadIdx.x) + pass * kThreads, in_row = (across_ ? kTile : kDepth) / kEach;
    return {i / in_row, i % in_row * kEach};
  }
  __device__ __forceinline__ static bool exists(int pass) {
    return (pass + 1) * kThreads <= kChunks || int(threadIdx.x) + pass * kThreads < kChunks;
  }
  __device__ __forceinline__ T* to(Panel& panel, int pass) const {
    const auto at = chunk(pass);
    return panel + at.outer * ((across_ ? kTile : kDepth) + kGap) + at.inner;
  }

  bool across_;
  int rows_;
  int64_t k_stride_;
  const T* at_[kPasses];    // the thread's next chunks
  const T* end_ = nullptr;  // behind the last element
  Held held_[kCopies ? 1 : kPasses];
};

}  // namespace tw::kernels

// What attention_tile_gpu.h brings into shared memory.
#pragma once

#include "tilewright/kernels/attention_tiles_gpu.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/memory.h"

namespace tw::kernels {

/// A block of rows of S in shared memory, as operands of type E, by all threads of a program. They
/// are there after wait_copies() and a barrier.
template <class E, int kThreads>
struct AttentionLoad {
  static constexpr int kUnit = 16 / int(sizeof(E));
  static constexpr int kTogether = 4;  // words that a thread has on their way
  template <class S>
  using Word = tile::Raw<S, kUnit>;

  int thread;
  E* to;
  int pitch, columns;  // of shared memory, multiples of a word
  int dims;            // that there are; the others become 0

  /// Whether words of such rows are words in memory.
  template <class S>
  TW_INLINE bool is_whole(const S* data, int64_t dim_stride, int64_t stride,
                          int64_t other_stride) const {
    return dim_stride == 1 && (dims | stride | other_stride) % kUnit == 0 &&
           Word<S>::is_aligned(data);
  }
  template <class S>
  TW_INLINE bool is_whole(const KeySource<S>& from) const {
    return is_whole(from.data, from.dim_stride, from.row_stride,
                    from.page_stride | from.head_stride);
  }

  /// row(r): where row r of the block begins, or null, for zeros. factor(r): of its elements.
  template <class S, int kRows, class Row, class... Factor>
  __device__ __forceinline__ void run(bool is_whole, int64_t stride, Row&& row,
                                      Factor... factor) const {
    if (!is_whole)
      elements<S, kRows>(stride, row, factor...);
    else if constexpr (tile::same_type<S, E> && sizeof...(factor) == 0)
      copies<kRows>(row);
    else
      words<S, kRows>(row, factor...);
  }

 private:
  /// That share a row.
  TW_INLINE int threads_across() const {
    int out = 1;
    while (out < 32 && out * kUnit < columns) out *= 2;
    return out;
  }
  /// No register sees them, so that they are on their way while the step before is multiplied.
  template <int kRows, class Row>
  __device__ __forceinline__ void copies(Row&& row) const {
    const int across = threads_across(), down = kThreads / across;
    TW_ROLLED
    for (int c = thread % across * kUnit; c < columns; c += across * kUnit) {
      TW_UNROLL_LOADS
      for (int r = thread / across; r < kRows; r += down) {
        const E* const from = c < dims ? row(r) : nullptr;
        if (from != nullptr)
          tile::cuda::copy_async_or_zero<16>(to + r * pitch + c, from + c, 16);
        else
          Word<E>{}.store(to + r * pitch + c);
      }
    }
  }
  template <class S, int kRows, class Row, class... Factor>
  __device__ __forceinline__ void words(Row&& row, Factor... factor) const {
    const int across = threads_across();
    const int down = kThreads / across, own = thread / across;
    TW_ROLLED
    for (int c = thread % across * kUnit; c < columns; c += across * kUnit) {
      TW_ROLLED
      for (int first = own; first < kRows; first += kTogether * down) {
        Word<S> raw[kTogether] = {};
        TW_UNROLL
        for (int i = 0; i < kTogether; ++i) {
          const int r = first + i * down;
          const S* const from = r < kRows && c < dims ? row(r) : nullptr;
          if (from != nullptr) raw[i] = Word<S>::load(from + c);
        }
        TW_UNROLL
        for (int i = 0; i < kTogether; ++i) {
          const int r = first + i * down;
          if (r >= kRows) continue;
          Word<E>::narrow((raw[i].template widen<float>() * ... * factor(r)))
              .store(to + r * pitch + c);
        }
      }
    }
  }
  template <class S, int kRows, class Row, class... Factor>
  __device__ __forceinline__ void elements(int64_t stride, Row&& row, Factor... factor) const {
    TW_ROLLED
    for (int r = thread / 32; r < kRows; r += kThreads / 32) {
      const S* const from = row(r);
      TW_ROLLED
      for (int c = thread % 32; c < columns; c += 32) {
        const float x = from != nullptr && c < dims ? float(from[c * stride]) : 0.0f;
        to[r * pitch + c] = E((x * ... * factor(r)));
      }
    }
  }
};

}  // namespace tw::kernels

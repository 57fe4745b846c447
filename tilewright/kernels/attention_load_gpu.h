// What attention_tile_gpu.h brings into shared memory.
#pragma once

#include "tilewright/kernels/attention_tiles_gpu.h"
#include "tilewright/tile/cuda/memory.h"

namespace tw::kernels {

/// A block of rows of S in shared memory, as operands of type E, by all threads of a program.
template <class E>
struct AttentionLoad {
  static constexpr int kThreads = AttentionTileSizes::kThreads;
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
    if (is_whole)
      words<S, kRows>(row, factor...);
    else
      elements<S, kRows>(stride, row, factor...);
  }

 private:
  template <class S, int kRows, class Row, class... Factor>
  __device__ __forceinline__ void words(Row&& row, Factor... factor) const {
    int across = 1;  // threads that share a row
    while (across < 32 && across * kUnit < columns) across *= 2;
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
          if (r < kRows) put<S>(to + r * pitch + c, raw[i], factor(r)...);
        }
      }
    }
  }
  template <class S, class... Factor>
  __device__ __forceinline__ static void put(E* at, const Word<S>& raw, Factor... factor) {
    if constexpr (tile::same_type<S, E> && sizeof...(factor) == 0)
      raw.store(at);
    else
      Word<E>::narrow((raw.template widen<float>() * ... * factor)).store(at);
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

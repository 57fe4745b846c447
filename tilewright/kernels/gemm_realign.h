// Copies a batch of matrices of 8-, 16- or 32-bit elements into rows that start at multiples of 16
// bytes, as TMA wants them. A pass of its own before a multiplication whose operands do not lie so.
#pragma once

#include "tilewright/core/types.h"
#include "tilewright/tile/cuda/program.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/transpose.h"
#endif

namespace tw::kernels {

template <int kBytes>
struct GemmRealignArguments {
  using Element = uint_bytes_t<kBytes>;
  static constexpr int kEach = 16 / kBytes;  // elements of a thread

  const Element* from;
  Element* to;  // [batch, rows, pitch]
  int64_t batch, rows, columns;
  int64_t batch_stride, row_stride, column_stride;  // of from
  int64_t pitch;                                    // of to, a multiple of kEach

  using Turned = tile::cuda::TurnedBlock<Element>;  // rows and columns that a block turns over

  /// Whether columns lie along memory. A block of threads has a block of elements then.
  TW_INLINE bool turns() const { return row_stride == 1 && column_stride != 1; }
  TW_INLINE int64_t turned_rows() const {
    return (rows + Turned::kElements - 1) / Turned::kElements;
  }
  TW_INLINE int64_t turned_columns() const {
    return (columns + Turned::kElements - 1) / Turned::kElements;
  }
};

}  // namespace tw::kernels

#if defined(__CUDACC__)
namespace tw::kernels {

/// One thread writes 16 bytes.
template <int kBytes>
struct GemmRealign {
  using Arguments = GemmRealignArguments<kBytes>;
  using Element = typename Arguments::Element;
  static constexpr int kEach = Arguments::kEach, kBlock = Arguments::Turned::kElements;
  const Arguments& given;

  __device__ void operator()() const { given.turns() ? turn() : copy(); }

  struct Threads {
    __device__ static int thread() { return int(threadIdx.x); }
    __device__ static int threads() { return int(blockDim.x); }
  };
  __device__ void turn() const {
    const int64_t columns = given.turned_columns(), rows = given.turned_rows();
    const int64_t rest = blockIdx.x / columns, batch = rest / rows;
    const int64_t row = (rest - batch * rows) * kBlock;
    const int64_t column = (blockIdx.x - rest * columns) * kBlock;
    tile::turn_block(
        Threads{}, given.from + batch * given.batch_stride + row + column * given.column_stride,
        given.column_stride, given.to + (batch * given.rows + row) * given.pitch + column,
        given.pitch, int64_t{1}, given.rows - row, given.columns - column);
  }

  __device__ void copy() const {
    const int64_t chunks = given.pitch / kEach, all = chunks * given.rows * given.batch;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < all;
         i += int64_t(gridDim.x) * blockDim.x) {
      const int64_t row = i / chunks, column = i % chunks * kEach;
      const int64_t batch = row / given.rows, in_batch = row - batch * given.rows;
      const Element* from = given.from + batch * given.batch_stride + in_batch * given.row_stride +
                            column * given.column_stride;
      const int64_t left = given.columns - column;
      uint32_t words[4];
      if (given.column_stride == 1 && left >= 2 * kEach)
        load_shifted(words, from);
      else
        load_each(words, from, left);
      *reinterpret_cast<uint4*>(given.to + row * given.pitch + column) = {words[0], words[1],
                                                                          words[2], words[3]};
    }
  }

  __device__ void load_each(uint32_t (&words)[4], const Element* from, int64_t left) const {
    constexpr int kOfWord = 4 / kBytes;
    TW_UNROLL
    for (int i = 0; i < 4; ++i) words[i] = 0;
    TW_UNROLL
    for (int i = 0; i < kEach; ++i)
      if (i < left)
        words[i / kOfWord] |= uint32_t(from[i * given.column_stride]) << i % kOfWord * (8 * kBytes);
  }

  /// 16 bytes from two aligned loads of 16, all of them inside the row's 32 from here or in the
  /// aligned span around its first.
  __device__ static void load_shifted(uint32_t (&words)[4], const Element* from) {
    const uint64_t at = reinterpret_cast<uint64_t>(from);
    const uint4* aligned = reinterpret_cast<const uint4*>(at & ~uint64_t(15));
    const uint32_t shift = uint32_t(at) & 15;
    const uint4 a = aligned[0], b = shift != 0 ? aligned[1] : a;
    uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    if (shift & 8) move<2>(w);
    if (shift & 4) move<1>(w);
    TW_UNROLL
    for (int i = 0; i < 4; ++i) words[i] = __funnelshift_r(w[i], w[i + 1], (shift & 3) * 8);
  }
  template <int kBy>
  __device__ static void move(uint32_t (&w)[8]) {
    TW_UNROLL
    for (int i = 0; i + kBy < 8; ++i) w[i] = w[i + kBy];
  }
};

}  // namespace tw::kernels
#endif

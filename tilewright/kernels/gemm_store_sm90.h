// How the sums of a warpgroup leave it: through the epilogue, rounded, staged in shared memory in
// the layout that TMA stores from, and on to global memory while the next tile is multiplied.
#pragma once

#include "tilewright/kernels/gemm_build_sm90.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/tma.h"

namespace tw::kernels {

/// The first element of a piece of out.
struct GemmCorner {
  int row, column, batch;
};

/// Staging memory of one warpgroup: pieces of up to 64 rows of 128 bytes, in TMA's 128-byte
/// swizzle.
template <class Out, int kBytes>
struct TileStore {
  static constexpr int kRows = 64, kRowBytes = 128, kColumns = kRowBytes / int(sizeof(Out));
  static constexpr int kPieceBytes = kRows * kRowBytes, kSlots = kBytes / kPieceBytes;
  char memory[kBytes];

  /// 64 x kN sums in the layout of wgmma. `barrier` is the warpgroup's own.
  template <int kN, class Arguments>
  TW_PTX void put(const Arguments& to, const float* sums, GemmCorner corner, int barrier) {
    constexpr int kPieces = kN / kColumns;
    TW_UNROLL
    for (int first = 0; first < kPieces; first += kSlots) {
      begin(barrier);
      TW_UNROLL
      for (int i = 0; i < kSlots && first + i < kPieces; ++i) {
        const int column = corner.column + (first + i) * kColumns;
        const auto apply = [&](float x, int row, int offset) {
          return to.epilogue(x, corner.row + row, column + offset, corner.batch);
        };
        char* piece = memory + i * kPieceBytes;
        if constexpr (sizeof(Out) == 2)
          stage_pairs(piece, sums + (first + i) * kColumns / 2, apply);
        else
          stage_words(piece, sums + (first + i) * kColumns / 2, apply);
      }
      constexpr int kHere = kPieces < kSlots ? kPieces : kSlots;
      finish<kRows, kHere>(to, {corner.row, corner.column + first * kColumns, corner.batch},
                           barrier, kPieces - first);
    }
  }

  /// The same of a transposed product: 64 columns of out and kN rows, which are one piece.
  template <int kN, class Arguments>
  TW_PTX void put_transposed(const Arguments& to, const float* sums, GemmCorner corner,
                             int barrier) {
    using namespace tile::cuda;
    static_assert(sizeof(Out) == 2 && kN * kRowBytes <= kBytes, "one piece");
    begin(barrier);
    const int my_column = corner.column + warp() * 16 + lane() / 4;
    const int my_row = corner.row + lane() % 4 * 2;
    TW_UNROLL
    for (int i = 0; i < kN / 8; ++i) {
      const float* s = sums + 4 * i;
      const auto pair = [&](int of, int column) {
        return pack<Out>(to.epilogue(s[of], my_row + 8 * i, column, corner.batch),
                         to.epilogue(s[of + 1], my_row + 8 * i + 1, column, corner.batch));
      };
      // Lanes 0-7 and 8-15 give the rows of the two matrices, that is, of columns 0-7 and 8-15.
      const int row = 8 * i + lane() % 8, chunk = 2 * warp() + lane() / 8 % 2;
      store_two_matrices_transposed(memory + row * kRowBytes + (chunk ^ lane() % 8) * 16,
                                    pair(0, my_column), pair(2, my_column + 8));
    }
    finish<kN, 1>(to, corner, barrier, 1);
  }

 private:
  TW_PTX static int thread() { return int(threadIdx.x) % 128; }
  TW_PTX static int warp() { return thread() / 32; }
  TW_PTX static int lane() { return thread() % 32; }

  /// Waits for the staging memory to be free.
  TW_PTX static void begin(int barrier) {
    if (thread() == 0) tile::cuda::wait_stores_read<0>();
    tile::cuda::sync_named(barrier, 128);
  }

  /// What is staged goes to global memory: kPieces of kHeight rows, the first `valid` of them.
  template <int kHeight, int kPieces, class Arguments>
  TW_PTX void finish(const Arguments& to, GemmCorner corner, int barrier, int valid) {
    using namespace tile::cuda;
    const bool scatters = to.scatter.data != nullptr;
    if (!scatters) fence_async_shared();
    sync_named(barrier, 128);
    if (scatters) {
      for (int i = 0; i < kPieces && i < valid; ++i)
        scatter<kHeight>(to.scatter, memory + i * kPieceBytes,
                         {corner.row, corner.column + i * kColumns, corner.batch});
    } else if (thread() == 0) {
      TW_UNROLL
      for (int i = 0; i < kPieces; ++i)
        if (i < valid)
          store_box(to.out, memory + i * kPieceBytes, corner.column + i * kColumns, corner.row,
                    corner.batch);
      commit_stores();
    }
  }
  template <int kHeight>
  TW_PTX static void scatter(const GemmScatter<Out>& to, const char* piece, GemmCorner corner) {
    for (int i = thread(); i < kHeight * kColumns; i += 128) {
      const int row = i / kColumns, at = i % kColumns * int(sizeof(Out));
      const int64_t r = corner.row + row, c = corner.column + i % kColumns;
      if (r < to.rows && c < to.columns)
        to.data[corner.batch * to.batch_stride + r * to.row_stride + c * to.column_stride] =
            *reinterpret_cast<const Out*>(piece + row * kRowBytes + (at / 16 ^ row % 8) * 16 +
                                          at % 16);
    }
  }

  /// 16-bit elements: a warp's 16 x 16 corner is four matrices of stmatrix.
  template <class Apply>
  TW_PTX static void stage_pairs(char* piece, const float* sums, const Apply& apply) {
    const int row = warp() * 16 + lane() % 16, half = lane() / 16;
    const int my_row = warp() * 16 + lane() / 4, my_column = lane() % 4 * 2;
    const auto pair = [&](int i, int row_offset) {
      const float* s = sums + 4 * i + row_offset / 4;
      return tile::cuda::pack<Out>(apply(s[0], my_row + row_offset, my_column + 8 * i),
                                   apply(s[1], my_row + row_offset, my_column + 8 * i + 1));
    };
    TW_UNROLL
    for (int i = 0; i < kColumns / 8; i += 2)
      tile::cuda::store_matrices(piece + row * kRowBytes + ((i + half) ^ row % 8) * 16, pair(i, 0),
                                 pair(i, 8), pair(i + 1, 0), pair(i + 1, 8));
  }
  template <class Apply>
  TW_PTX static void stage_words(char* piece, const float* sums, const Apply& apply) {
    const int row = warp() * 16 + lane() / 4, column = lane() % 4 * 2;
    TW_UNROLL
    for (int i = 0; i < kColumns / 8; ++i) {
      const float* s = sums + 4 * i;
      char* to = piece + row * kRowBytes + ((2 * i + column / 4) ^ row % 8) * 16 + column % 4 * 4;
      *reinterpret_cast<float2*>(to) = {apply(s[0], row, column + 8 * i),
                                        apply(s[1], row, column + 8 * i + 1)};
      *reinterpret_cast<float2*>(to + 8 * kRowBytes) = {apply(s[2], row + 8, column + 8 * i),
                                                        apply(s[3], row + 8, column + 8 * i + 1)};
    }
  }
};

}  // namespace tw::kernels

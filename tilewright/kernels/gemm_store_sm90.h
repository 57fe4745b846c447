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
  TW_PTX void put(const Arguments& to, float (&sums)[kN / 2], GemmCorner corner, int barrier) {
    constexpr int kPieces = kN / kColumns;
    if constexpr (decltype(to.epilogue)::kLong) {
#pragma unroll 1
      for (int i = 0; i < kPieces; ++i) {
        put_pieces<1, kSlots - 1>(memory + i % kSlots * kPieceBytes, to, sums, corner, barrier);
        corner.column += kColumns;
        rotate<kColumns / 2>(sums);
      }
    } else {
      constexpr int kAtOnce = kPieces < kSlots ? kPieces : kSlots;
      static_assert(kPieces % kAtOnce == 0, "equal turns");
      TW_UNROLL
      for (int i = 0; i < kPieces; i += kAtOnce) {
        put_pieces<kAtOnce, 0>(memory, to, sums + i * kColumns / 2, corner, barrier);
        corner.column += kAtOnce * kColumns;
      }
    }
  }

  /// The same of a transposed product: 64 columns of out and kN rows, which are one piece.
  template <int kN, class Arguments>
  TW_PTX void put_transposed(const Arguments& to, float (&sums)[kN / 2], GemmCorner corner,
                             int barrier) {
    static_assert(sizeof(Out) == 2 && kN * kRowBytes <= kBytes, "one piece");
    begin<0>(barrier);
    if constexpr (decltype(to.epilogue)::kLong) {
#pragma unroll 1
      for (int i = 0; i < kN / 8; ++i) {
        stage_transposed(to, sums, corner, i);
        rotate<4>(sums);
      }
    } else {
      TW_UNROLL
      for (int i = 0; i < kN / 8; ++i) stage_transposed(to, sums + 4 * i, corner, i);
    }
    finish<kN, 1>(memory, to, corner, barrier);
  }

 private:
  TW_PTX static int thread() { return int(threadIdx.x) % 128; }
  TW_PTX static int warp() { return thread() / 32; }
  TW_PTX static int lane() { return thread() % 32; }

  /// Waits for staging memory to be free.
  template <int kPending>
  TW_PTX static void begin(int barrier) {
    if (thread() == 0) tile::cuda::wait_stores_read<kPending>();
    tile::cuda::sync_named(barrier, 128);
  }

  /// Brings the sums kBy further on to the front, for loops that are not unrolled: registers cannot
  /// be indexed.
  template <int kBy, int kCount>
  TW_PTX static void rotate(float (&sums)[kCount]) {
    TW_UNROLL
    for (int i = 0; i + kBy < kCount; ++i) sums[i] = sums[i + kBy];
  }

  /// kPieces of them, at `slot`; at most kPending earlier ones may still be on their way.
  template <int kPieces, int kPending, class Arguments>
  TW_PTX static void put_pieces(char* slot, const Arguments& to, const float* sums,
                                GemmCorner corner, int barrier) {
    begin<kPending>(barrier);
    TW_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      const int column = corner.column + i * kColumns;
      const auto apply = [&](float x, int row, int offset) {
        return to.epilogue(x, corner.row + row, column + offset, corner.batch);
      };
      char* piece = slot + i * kPieceBytes;
      if constexpr (sizeof(Out) == 2)
        stage_pairs(piece, sums + i * kColumns / 2, apply);
      else
        stage_words(piece, sums + i * kColumns / 2, apply);
    }
    finish<kRows, kPieces>(slot, to, corner, barrier);
  }

  /// Eight rows of transposed out, four sums of them in a thread.
  template <class Arguments>
  TW_PTX void stage_transposed(const Arguments& to, const float* s, GemmCorner corner, int block) {
    using namespace tile::cuda;
    const int my_column = corner.column + warp() * 16 + lane() / 4;
    const int my_row = corner.row + 8 * block + lane() % 4 * 2;
    const auto pair = [&](int of, int column) {
      return pack<Out>(to.epilogue(s[of], my_row, column, corner.batch),
                       to.epilogue(s[of + 1], my_row + 1, column, corner.batch));
    };
    // Lanes 0-7 and 8-15 give the rows of the two matrices, that is, of columns 0-7 and 8-15.
    const int row = 8 * block + lane() % 8, chunk = 2 * warp() + lane() / 8 % 2;
    store_two_matrices_transposed(memory + row * kRowBytes + (chunk ^ lane() % 8) * 16,
                                  pair(0, my_column), pair(2, my_column + 8));
  }

  /// What is staged goes to global memory: kPieces of kHeight rows.
  template <int kHeight, int kPieces, class Arguments>
  TW_PTX static void finish(const char* slot, const Arguments& to, GemmCorner corner, int barrier) {
    using namespace tile::cuda;
    const bool scatters = to.scatter.data != nullptr;
    if (!scatters) fence_async_shared();
    sync_named(barrier, 128);
    if (scatters) {
      for (int i = 0; i < kPieces; ++i)
        scatter<kHeight>(to.scatter, slot + i * kPieceBytes,
                         {corner.row, corner.column + i * kColumns, corner.batch});
    } else if (thread() == 0) {
      TW_UNROLL
      for (int i = 0; i < kPieces; ++i)
        store_box(to.out, slot + i * kPieceBytes, corner.column + i * kColumns, corner.row,
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

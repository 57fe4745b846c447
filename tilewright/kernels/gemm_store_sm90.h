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
/// What the epilogue adds to the two columns that a thread has of a transposed product.
struct GemmTerms {
  float left = 0, right = 0;
};

/// Staging memory of one warpgroup: pieces of up to 64 rows of 128 bytes, in TMA's 128-byte
/// swizzle.
template <class Out, int kBytes>
struct TileStore {
  static constexpr int kRows = 64, kRowBytes = 128, kColumns = kRowBytes / int(sizeof(Out));
  static constexpr int kPieceBytes = kRows * kRowBytes, kSlots = kBytes / kPieceBytes;
  char memory[kBytes];

  /// 64 x kN sums in the layout of wgmma. `barrier` is the warpgroup's own; kPairs, of a thread's
  /// pairs of columns, what the epilogue loads at once; `terms` those of the columns, if it has
  /// any.
  template <int kN, int kPairs, class Arguments, class Sum>
  TW_PTX void put(const Arguments& to, Sum (&sums)[kN / 2], GemmCorner corner, int barrier,
                  const float* terms = nullptr) {
    with_rest(
        to.epilogue, corner.batch,
        [&](const auto& epilogue)
            TW_INLINED { put_by<kN, kPairs>(to, epilogue, sums, corner, barrier, terms); },
        [&](const auto& by) TW_INLINED { adjust<kN, kPairs>(by, sums, corner); });
  }

  /// The same of a transposed product: 64 columns of out and kN rows, which are one piece.
  template <int kN, class Arguments>
  TW_PTX void put_transposed(const Arguments& to, float (&sums)[kN / 2], GemmCorner corner,
                             int barrier, const GemmTerms& terms) {
    with_rest(
        to.epilogue, corner.batch,
        [&](const auto& epilogue)
            TW_INLINED { put_transposed_by<kN>(to, epilogue, sums, corner, barrier, terms); },
        [&](const auto& by) TW_INLINED { adjust_transposed<kN>(by, sums, corner); });
  }

 private:
  /// adjust(the adjustment), if the call has one, and put(what is left of the epilogue).
  template <class Epilogue, class Put, class Adjust>
  TW_PTX static void with_rest(const Epilogue& epilogue, int batch, Put&& put, Adjust&& adjust) {
    const auto choose = [&](const auto& rest) TW_INLINED {
      if constexpr (requires { rest.choose(put); })
        rest.choose(put);
      else
        put(rest);
    };
    if constexpr (AdjustingEpilogue<Epilogue>) {
      const bool adjusts = epilogue.adjusts();
      if (adjusts) adjust(epilogue.adjustment(batch));
      choose(epilogue.rest(adjusts));
    } else {
      choose(epilogue);
    }
  }

  template <int kN, int kPairs, class Arguments, class Epilogue, class Sum>
  TW_PTX void put_by(const Arguments& to, const Epilogue& epilogue, Sum (&sums)[kN / 2],
                     GemmCorner corner, int barrier, const float* terms) {
    constexpr int kPieces = kN / kColumns;
    if constexpr (Epilogue::kLong) {
#pragma unroll 1
      for (int i = 0; i < kPieces; ++i) {
        put_pieces<1, kSlots - 1, kPairs>(memory + i % kSlots * kPieceBytes, to, epilogue, sums,
                                          corner, barrier, terms + i * kColumns);
        corner.column += kColumns;
        rotate<kColumns / 2>(sums);
      }
    } else {
      constexpr int kAtOnce = kPieces < kSlots ? kPieces : kSlots;
      static_assert(kPieces % kAtOnce == 0, "equal turns");
      TW_UNROLL
      for (int i = 0; i < kPieces; i += kAtOnce) {
        put_pieces<kAtOnce, 0, kPairs>(memory, to, epilogue, sums + i * kColumns / 2, corner,
                                       barrier, terms + i * kColumns);
        corner.column += kAtOnce * kColumns;
      }
    }
  }

  template <int kN, class Arguments, class Epilogue>
  TW_PTX void put_transposed_by(const Arguments& to, const Epilogue& epilogue,
                                float (&sums)[kN / 2], GemmCorner corner, int barrier,
                                const GemmTerms& terms) {
    static_assert(sizeof(Out) == 2 && kN * kRowBytes <= kBytes, "one piece");
    const int my_column = corner.column + warp() * 16 + lane() / 4;
    const auto left = gemm_column(epilogue, my_column, terms.left);
    const auto right = gemm_column(epilogue, my_column + 8, terms.right);
    begin<0>(barrier);
    constexpr int kBlocks = kN / 8, kAtOnce = Epilogue::kLong && kBlocks % 4 == 0 ? 4 : kBlocks;
#pragma unroll 1
    for (int i = 0; i < kBlocks; i += kAtOnce) {
      TW_UNROLL
      for (int j = 0; j < kAtOnce; ++j)
        stage_transposed(left, right, sums + 4 * j, corner.row, i + j);
      if constexpr (kAtOnce < kBlocks) rotate<4 * kAtOnce>(sums);
    }
    finish<kN, 1>(memory, to, corner, barrier);
  }

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
  template <int kBy, class Sum, int kCount>
  TW_PTX static void rotate(Sum (&sums)[kCount]) {
    TW_UNROLL
    for (int i = 0; i + kBy < kCount; ++i) sums[i] = sums[i + kBy];
  }

  /// The sums at the front are done with: what was made of them goes to the end.
  template <class Sum, int kCount, int kMade>
  TW_PTX static void take_turn(Sum (&sums)[kCount], const Sum (&made)[kMade]) {
    rotate<kMade>(sums);
    TW_UNROLL
    for (int i = 0; i < kMade; ++i) sums[kCount - kMade + i] = made[i];
  }

  /// Each sum becomes what the adjustment makes of it. A few at a time: it is rare, and must not
  /// take registers from what is not.
  template <int kN, int kPairs, class Adjustment, class Sum>
  TW_PTX static void adjust(const Adjustment& with, Sum (&sums)[kN / 2], GemmCorner corner) {
    constexpr int kAtOnce = kPairs;
    const int my_row = corner.row + warp() * 16 + lane() / 4;
    const int my_column = corner.column + lane() % 4 * 2;
#pragma unroll 1
    for (int i = 0; i < kN / 8; i += kAtOnce) {
      const auto apply = with.template piece<kAtOnce>(my_row, my_column + 8 * i);
      Sum made[4 * kAtOnce];
      TW_UNROLL
      for (int j = 0; j < 4 * kAtOnce; ++j) made[j] = apply(sums[j], j / 2 % 2, j / 4, j % 2);
      take_turn(sums, made);
    }
  }
  template <int kN, class Adjustment>
  TW_PTX static void adjust_transposed(const Adjustment& with, float (&sums)[kN / 2],
                                       GemmCorner corner) {
    const int my_column = corner.column + warp() * 16 + lane() / 4;
    const int my_row = corner.row + lane() % 4 * 2;
    const auto left = with.column(my_column), right = with.column(my_column + 8);
#pragma unroll 1
    for (int i = 0; i < kN / 8; ++i) {
      const int row = my_row + 8 * i;
      const float made[] = {left(sums[0], row), left(sums[1], row + 1), right(sums[2], row),
                            right(sums[3], row + 1)};
      take_turn(sums, made);
    }
  }

  /// kPieces of them, at `slot`; at most kPending earlier ones may still be on their way.
  template <int kPieces, int kPending, int kPairs, class Arguments, class Epilogue, class Sum>
  TW_PTX static void put_pieces(char* slot, const Arguments& to, const Epilogue& epilogue,
                                const Sum* sums, GemmCorner corner, int barrier,
                                const float* terms) {
    const int my_row = corner.row + warp() * 16 + lane() / 4;
    const int my_column = corner.column + lane() % 4 * 2;
    TW_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      TW_UNROLL
      for (int first = 0; first < kColumns / 8; first += kPairs) {
        const int at = i * kColumns + first * 8;
        const auto apply = gemm_piece<kPairs>(epilogue, my_row, my_column + at,
                                              terms + (my_column - corner.column) + at);
        if (i == 0 && first == 0) begin<kPending>(barrier);
        stage<kPairs>(slot + i * kPieceBytes, sums + i * kColumns / 2 + 4 * first, first, apply);
      }
    }
    finish<kRows, kPieces>(slot, to, corner, barrier);
  }

  /// Eight rows of transposed out, four sums of them in a thread: two of each of its columns.
  template <class Column>
  TW_PTX void stage_transposed(const Column& left, const Column& right, const float* s, int first,
                               int block) {
    using namespace tile::cuda;
    const int my_row = first + 8 * block + lane() % 4 * 2;
    const auto pair = [&](const Column& column, const float* of) {
      return pack<Out>(column(of[0], my_row), column(of[1], my_row + 1));
    };
    // Lanes 0-7 and 8-15 give the rows of the two matrices, that is, of columns 0-7 and 8-15.
    const int row = 8 * block + lane() % 8, chunk = 2 * warp() + lane() / 8 % 2;
    store_two_matrices_transposed(memory + row * kRowBytes + (chunk ^ lane() % 8) * 16,
                                  pair(left, s), pair(right, s + 2));
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
                         {corner.row, corner.column + i * kColumns, corner.batch}, adds(to));
    } else if (thread() == 0) {
      TW_UNROLL
      for (int i = 0; i < kPieces; ++i) {
        const char* const piece = slot + i * kPieceBytes;
        const int column = corner.column + i * kColumns;
        if (adds(to))
          add_box(to.out, piece, column, corner.row, corner.batch);
        else
          store_box(to.out, piece, column, corner.row, corner.batch);
      }
      commit_stores();
    }
  }
  template <class Arguments>
  TW_PTX static bool adds(const Arguments& to) {
    if constexpr (requires { to.adds; })
      return to.adds;
    else
      return false;
  }
  /// A warp has a row, a lane one of 32 columns: where a row is in memory is worked out once.
  template <int kHeight>
  TW_PTX static void scatter(const GemmScatter<Out>& to, const char* piece, GemmCorner corner,
                             bool adds) {
    using Wide = tile::compute_t<Out>;
    constexpr int kWarps = 4, kLanes = 32;
    const int64_t first = corner.row + warp(), column = corner.column + lane();
    Out* line = to.data + corner.batch * to.batch_stride + first * to.row_stride +
                column * to.column_stride;
    const int64_t below = to.rows - corner.row, step = kLanes * to.column_stride;
    const int height = below < kHeight ? int(below) : kHeight;
#pragma unroll 4
    for (int row = warp(); row < height; row += kWarps, line += kWarps * to.row_stride) {
      TW_UNROLL
      for (int i = 0; i < kColumns / kLanes; ++i) {
        const int at = (lane() + i * kLanes) * int(sizeof(Out));
        if (column + i * kLanes >= to.columns) continue;
        const Out value = *reinterpret_cast<const Out*>(piece + row * kRowBytes +
                                                        (at / 16 ^ row % 8) * 16 + at % 16);
        Out& place = line[i * step];
        place = adds ? Out(Wide(place) + Wide(value)) : value;
      }
    }
  }

  /// kPairs of each row, from pair `first` on.
  template <int kPairs, class Apply, class Sum>
  TW_PTX static void stage(char* piece, const Sum* sums, int first, const Apply& apply) {
    if constexpr (sizeof(Out) == 2)
      stage_pairs<kPairs>(piece, sums, first, apply);
    else
      stage_words<kPairs>(piece, sums, first, apply);
  }

  /// 16-bit elements: a warp's 16 x 16 corner is four matrices of stmatrix.
  template <int kPairs, class Apply>
  TW_PTX static void stage_pairs(char* piece, const float* sums, int first, const Apply& apply) {
    const int row = warp() * 16 + lane() % 16, half = first + lane() / 16;
    const auto pair = [&](int i, int which) {
      const float* s = sums + 4 * i + 2 * which;
      return tile::cuda::pack<Out>(apply(s[0], which, i, 0), apply(s[1], which, i, 1));
    };
    TW_UNROLL
    for (int i = 0; i < kPairs; i += 2)
      tile::cuda::store_matrices(piece + row * kRowBytes + ((i + half) ^ row % 8) * 16, pair(i, 0),
                                 pair(i, 1), pair(i + 1, 0), pair(i + 1, 1));
  }
  template <int kPairs, class Apply, class Sum>
  TW_PTX static void stage_words(char* piece, const Sum* sums, int first, const Apply& apply) {
    struct alignas(8) Pair {
      Out left, right;
    };
    const int row = warp() * 16 + lane() / 4, column = lane() % 4 * 2;
    TW_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      const Sum* s = sums + 4 * i;
      const int chunk = 2 * (first + i) + column / 4;
      char* to = piece + row * kRowBytes + (chunk ^ row % 8) * 16 + column % 4 * 4;
      *reinterpret_cast<Pair*>(to) = {apply(s[0], 0, i, 0), apply(s[1], 0, i, 1)};
      *reinterpret_cast<Pair*>(to + 8 * kRowBytes) = {apply(s[2], 1, i, 0), apply(s[3], 1, i, 1)};
    }
  }
};

}  // namespace tw::kernels

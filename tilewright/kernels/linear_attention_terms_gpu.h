// Factors of linear_attention's chunks (linear_attention_chunks.h): numbers as one or two of
// bfloat16, in shared memory and as a warp's matrix instruction takes them.
#pragma once

#include "tilewright/kernels/linear_attention_chunks.h"
#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/mma.h"

namespace tw::kernels {

/// Two numbers as so many pairs of bfloat16, each of which has the next eight bits of both.
template <int kTerms>
struct PairTerms {
  uint32_t term[kTerms];

  __device__ __forceinline__ PairTerms(float x, float y) {
    TW_UNROLL
    for (int i = 0; i < kTerms; ++i) {
      term[i] = tile::cuda::pack<bf16>(x, y);
      x -= __uint_as_float(term[i] << 16);
      y -= __uint_as_float(term[i] & 0xffff0000u);
    }
  }
};

/// The left factor of a product of 16 x 16, in terms.
template <int kTerms>
struct LeftTerms {
  uint32_t term[kTerms][4];

  /// Of two neighbouring tiles of sums, m16 n8.
  __device__ __forceinline__ static LeftTerms of(const float (&first)[4],
                                                 const float (&second)[4]) {
    LeftTerms out;
    TW_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float(&from)[4] = i < 2 ? first : second;
      const PairTerms<kTerms> pair(from[i % 2 * 2], from[i % 2 * 2 + 1]);
      TW_UNROLL
      for (int t = 0; t < kTerms; ++t) out.term[t][i] = pair.term[t];
    }
    return out;
  }
};
/// The right factor of two such products, side by side.
template <int kTerms>
struct RightTerms {
  uint32_t term[kTerms][4];
};

/// sums += left right for both halves of `right`, without products that are as small as the kOf-th
/// term of a factor.
template <int kOf, int kLeft, int kRight>
__device__ __forceinline__ void multiply(float (&first)[4], float (&second)[4],
                                         const LeftTerms<kLeft>& left,
                                         const RightTerms<kRight>& right) {
  TW_UNROLL
  for (int r = 0; r < kRight; ++r) {
    TW_UNROLL
    for (int l = 0; l < kLeft; ++l) {
      if (l + r >= kOf) continue;
      const auto& of = right.term[r];
      const uint32_t halves[2][2] = {{of[0], of[1]}, {of[2], of[3]}};
      tile::cuda::mma(first, left.term[l], halves[0], bf16{});
      tile::cuda::mma(second, left.term[l], halves[1], bf16{});
    }
  }
}

/// A matrix in shared memory, or one on its way there: rows of kUnits times eight elements and
/// eight more, so that those of a column lie in different banks.
template <int kUnits>
struct PaddedRows {
  static constexpr int kPitch = int(LinearChunks::padded(8 * kUnits));

  TW_INLINE static constexpr int at(int row, int col) { return row * kPitch + col; }

  /// Where a lane begins to read right factors whose columns are rows here, or whose rows are; left
  /// factors begin as the latter.
  __device__ __forceinline__ static int of_columns(int lane) {
    return at(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
  }
  __device__ __forceinline__ static int of_rows(int lane) { return at(lane % 16, lane / 16 * 8); }
  /// At that place and beyond, rows and columns [row, row + 16) and [col, col + 16), of all terms,
  /// which are `stride` elements apart.
  template <int kTerms>
  __device__ __forceinline__ static LeftTerms<kTerms> left(const bf16* lanes, int stride, int row,
                                                           int col) {
    return load<LeftTerms<kTerms>, false>(lanes, stride, at(row, col));
  }
  template <int kTerms>
  __device__ __forceinline__ static RightTerms<kTerms> columns(const bf16* lanes, int stride,
                                                               int row, int col) {
    return load<RightTerms<kTerms>, false>(lanes, stride, at(row, col));
  }
  template <int kTerms>
  __device__ __forceinline__ static RightTerms<kTerms> rows(const bf16* lanes, int stride, int row,
                                                            int col) {
    return load<RightTerms<kTerms>, true>(lanes, stride, at(row, col));
  }

 private:
  template <class Terms, bool kTransposed>
  __device__ __forceinline__ static Terms load(const bf16* from, int stride, int at) {
    Terms out;
    TW_UNROLL
    for (int i = 0; i < int(sizeof(out.term) / sizeof(out.term[0])); ++i) {
      if constexpr (kTransposed)
        tile::cuda::load_matrices_transposed(out.term[i], from + i * stride + at);
      else
        tile::cuda::load_matrices(out.term[i], from + i * stride + at);
    }
    return out;
  }
};

}  // namespace tw::kernels
#endif

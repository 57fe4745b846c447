// How the sums of a warpgroup leave it: normalised, and from the registers, so that no tile waits
// for the memory of another; or in float32, for the sum over splits.
#pragma once

#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/kernels/attention_tiles_sm90.h"
#include "tilewright/tile/cuda/convert.h"

namespace tw::kernels {

/// The rows of a thread of a consumer: queries of the sequence, and heads.
struct AttentionRowPair {
  int query[2], head[2];
  bool exists[2];

  template <class Arguments>
  TW_PTX AttentionRowPair(const Arguments& given, const AttentionTile& tile, int consumer) {
    const int queries = 64 / given.pack;
    const int row = int(threadIdx.x) % 128 / 32 * 16 + int(threadIdx.x) % 32 / 4;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int at = (row + 8 * r) / given.pack;
      query[r] = tile.first_query + consumer * queries + at;
      head[r] = tile.head * given.pack + row + 8 * r - at * given.pack;
      exists[r] = at < queries && query[r] < tile.q_len;
    }
  }
};

template <class T, int kDims>
struct AttentionStore {
  using Arguments = AttentionArguments<T>;
  using Sums = float[kDims / 2];

  const Arguments& given;
  const AttentionTile& tile;
  int consumer;

  TW_PTX void put(AttentionRowState& state, Sums& sums) const {
    const AttentionRowPair rows(given, tile, consumer);
    float factor[2];
    finish(rows, state, factor);
    TW_UNROLL
    for (int i = 0; i < kDims / 2; ++i) sums[i] *= factor[i / 2 % 2];
    if (given.partials) {
      TW_UNROLL
      for (int i = 0; i < kDims / 8; ++i) put_partial(rows, i, sums + 4 * i);
    } else {
      TW_UNROLL
      for (int i = 0; i < kDims / 8; i += 4) put_columns(rows, i, sums + 4 * i);
    }
  }

  /// Of a tile that sees no key.
  TW_PTX void put_nothing() const {
    const AttentionRowPair rows(given, tile, consumer);
    AttentionRowState state;
    float factor[2];
    finish(rows, state, factor);
    if (given.partials) return;  // whose lse says that they weigh nothing
    const float zeros[16] = {};
#pragma unroll 1
    for (int i = 0; i < kDims / 8; i += 4) put_columns(rows, i, zeros);
  }

 private:
  /// The factors that normalise the sums; lse is put.
  TW_PTX void finish(const AttentionRowPair& rows, AttentionRowState& state,
                     float (&factor)[2]) const {
    float sink[2] = {attention_sm90::kLow, attention_sm90::kLow};
    TW_UNROLL
    for (int r = 0; r < 2; ++r)
      if (!given.partials && given.sinks && rows.exists[r]) sink[r] = given.sinks(rows.head[r]);
    state.finish(sink, factor);
    TW_UNROLL
    for (int r = 0; r < 2; ++r) put_lse(rows, r, state.lse(r));
  }

  TW_PTX static int lane() { return int(threadIdx.x) % 32; }
  /// The sequence's first query among those of all.
  TW_PTX int64_t absolute() const {
    return given.q_offsets ? tile.q_base : int64_t{tile.batch} * given.queries;
  }

  TW_PTX void put_lse(const AttentionRowPair& rows, int r, float lse) const {
    if (lane() % 4 != 0 || !rows.exists[r]) return;
    if (given.partials)
      *given.partial_lse.at(tile.split, absolute() + rows.query[r], rows.head[r]) = lse;
    else if (given.lse)
      *given.lse.at(tile.q_outer, tile.q_base + rows.query[r], rows.head[r]) = lse;
  }

  /// Columns 8 i ... 8 i + 31, four lanes of which have two of every eight: each gets eight.
  TW_PTX void put_columns(const AttentionRowPair& rows, int i, const float* sums) const {
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      uint32_t words[4];
      TW_UNROLL
      for (int j = 0; j < 4; ++j)
        words[j] = tile::cuda::pack<T>(sums[4 * j + 2 * r], sums[4 * j + 2 * r + 1]);
      transpose_quad(words);
      const int column = 8 * (i + lane() % 4), columns = given.value_dims - column;
      if (!rows.exists[r] || columns <= 0) continue;
      T* to = given.rows.at(tile.q_outer, tile.q_base + rows.query[r], rows.head[r]) + column;
      if (columns >= 8) {
        *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
      } else {
        put_some(reinterpret_cast<uint16_t*>(to), columns, words[0], words[1], words[2], words[3]);
      }
    }
  }
  /// Out of line: rare, and there are many places that would hold a copy.
  static __device__ __noinline__ void put_some(uint16_t* to, int columns, uint32_t w0, uint32_t w1,
                                               uint32_t w2, uint32_t w3) {
    for (int c = 0; c < columns; ++c) {
      const uint32_t word = c < 2 ? w0 : c < 4 ? w1 : c < 6 ? w2 : w3;
      to[c] = uint16_t(word >> (16 * (c % 2)));
    }
  }
  /// Word j of lane q of four becomes word q of lane j.
  TW_PTX static void transpose_quad(uint32_t (&words)[4]) {
    TW_UNROLL
    for (int step = 1; step <= 2; step *= 2) {
      const bool upper = (lane() & step) != 0;
      TW_UNROLL
      for (int j = 0; j < 4; ++j) {
        if (j & step) continue;
        uint32_t &low = words[j], &high = words[j + step];
        const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? low : high, step);
        (upper ? low : high) = got;
      }
    }
  }

  TW_PTX void put_partial(const AttentionRowPair& rows, int i, const float* sums) const {
    const int column = 8 * i + lane() % 4 * 2;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (!rows.exists[r]) continue;
      float* const to =
          given.partials.at(tile.split, absolute() + rows.query[r], rows.head[r]) + column;
      TW_UNROLL
      for (int c = 0; c < 2; ++c)
        if (column + c < given.value_dims) to[c] = sums[2 * r + c];
    }
  }
};

}  // namespace tw::kernels

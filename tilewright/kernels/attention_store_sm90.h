// How the sums of a warpgroup leave it: normalised, and from the registers, so that no tile waits
// for the memory of another; or in float32, for the sum over splits.
#pragma once

#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/kernels/attention_tiles_sm90.h"
#include "tilewright/tile/cuda/fragment_rows.h"

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
  int first_column = 0;  // of the output; the consumer that has the first one puts lse

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
    if (first_column != 0 || lane() % 4 != 0 || !rows.exists[r]) return;
    if (given.partials)
      *given.partial_lse.at(tile.split, absolute() + rows.query[r], rows.head[r]) = lse;
    else if (given.lse)
      *given.lse.at(tile.q_outer, tile.q_base + rows.query[r], rows.head[r]) = lse;
  }

  TW_PTX void put_columns(const AttentionRowPair& rows, int i, const float* sums) const {
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      T* const to = given.rows.at(tile.q_outer, tile.q_base + rows.query[r], rows.head[r]);
      tile::cuda::store_fragment_row(rows.exists[r] ? to : nullptr, first_column + 8 * i,
                                     given.value_dims, sums + 2 * r);
    }
  }

  TW_PTX void put_partial(const AttentionRowPair& rows, int i, const float* sums) const {
    const int column = first_column + 8 * i + lane() % 4 * 2;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (!rows.exists[r]) continue;
      float* const to =
          given.partials.at(tile.split, absolute() + rows.query[r], rows.head[r]) + column;
      if (column + 1 < given.value_dims && given.value_dims % 2 == 0) {
        *reinterpret_cast<float2*>(to) = {sums[2 * r], sums[2 * r + 1]};
      } else {
        TW_UNROLL
        for (int c = 0; c < 2; ++c)
          if (column + c < given.value_dims) to[c] = sums[2 * r + c];
      }
    }
  }
};

}  // namespace tw::kernels

// How the sums of a warpgroup leave it: normalised, and from the registers, so that no tile waits
// for the memory of another; or in float32, for the sum over parts.
#pragma once

#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/kernels/attention_tiles_sm90.h"
#include "tilewright/tile/cuda/fragment_rows.h"

namespace tw::kernels {

/// The rows of a thread of a consumer: queries of the sequence, and heads.
struct AttentionRowPair {
  /// Of the consumer's rows, the first of the thread's; the other is 8 further on.
  TW_PTX static int first() { return int(threadIdx.x) % 128 / 32 * 16 + int(threadIdx.x) % 32 / 4; }
  int query[2], head[2];
  bool exists[2];

  template <class Arguments>
  TW_PTX AttentionRowPair(const Arguments& given, const AttentionTile& tile, int consumer) {
    const int queries = 64 / given.pack;
    const int row = first();
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int at = (row + 8 * r) / given.pack;
      query[r] = tile.first_query + consumer * queries + at;
      head[r] = tile.head * given.pack + row + 8 * r - at * given.pack;
      exists[r] = at < queries && query[r] < tile.q_len;
    }
  }
};

/// `kParts`: the tile may be a part of one.
template <class T, int kDims, bool kParts>
struct AttentionStore {
  using Arguments = AttentionArguments<T>;
  using Out = attention_output_t<T>;
  using Sums = float[kDims / 2];

  const Arguments& given;
  const AttentionTile& tile;
  int consumer;
  int first_column = 0;  // of the output; the consumer that has the first one puts lse
  int slot = kParts ? tw::tile::cuda::uniform(this->tile.slot) : -1;

  TW_PTX void put(AttentionRowState& state, Sums& sums) const {
    const AttentionRowPair rows(given, tile, consumer);
    float factor[2];
    finish(rows, state, factor);
    TW_UNROLL
    for (int i = 0; i < kDims / 2; ++i) sums[i] *= factor[i / 2 % 2];
    if (is_part()) {
      TW_UNROLL
      for (int r = 0; r < 2; ++r) put_partial(rows, r, sums + 2 * r);
    } else {
      TW_UNROLL
      for (int r = 0; r < 2; ++r) put_columns<kDims>(rows, r, 0, sums + 2 * r);
    }
  }

  /// Of a tile that sees no key.
  TW_PTX void put_nothing() const {
    const AttentionRowPair rows(given, tile, consumer);
    AttentionRowState state;
    float factor[2];
    finish(rows, state, factor);
    if (is_part()) return;  // its lse says that it weighs nothing
    const float zeros[16] = {};
    for (int r = 0; r < 2; ++r)
#pragma unroll 1
      for (int c = 0; c < kDims; c += 32) put_columns<32>(rows, r, c, zeros);
  }

 private:
  /// The factors that normalise the sums; lse is put.
  TW_PTX void finish(const AttentionRowPair& rows, AttentionRowState& state,
                     float (&factor)[2]) const {
    float sink[2] = {attention_sm90::kLow, attention_sm90::kLow};
    TW_UNROLL
    for (int r = 0; r < 2; ++r)
      if (!is_part() && given.sinks && rows.exists[r]) sink[r] = given.sinks(rows.head[r]);
    state.finish(sink, factor);
    TW_UNROLL
    for (int r = 0; r < 2; ++r) put_lse(rows, r, state.lse(r));
    if constexpr (sizeof(T) == 1) {  // values are as they came
      const float scale = given.v_scale.at(tile.batch, 0, tile.head / given.heads_per_kv);
      TW_UNROLL
      for (int r = 0; r < 2; ++r) factor[r] *= scale;
    }
  }

  TW_PTX static int lane() { return int(threadIdx.x) % 32; }
  TW_PTX bool is_part() const { return kParts && slot >= 0; }
  /// Of a part of a tile, among those of all.
  TW_PTX int part_row(int r) const {
    return slot * given.part_rows + AttentionRowPair::first() + 8 * r;
  }

  TW_PTX void put_lse(const AttentionRowPair& rows, int r, float lse) const {
    if (first_column != 0 || lane() % 4 != 0 || !rows.exists[r]) return;
    if (is_part())
      given.partial_lse[part_row(r)] = lse;
    else if (given.lse)
      *given.lse.at(tile.q_outer, tile.q_base + rows.query[r], rows.head[r]) = lse;
  }

  template <int kColumns>
  TW_PTX void put_columns(const AttentionRowPair& rows, int r, int first, const float* sums) const {
    first += first_column;
    Out* const to = given.rows.at(tile.q_outer, tile.q_base + rows.query[r], rows.head[r]) + first;
    tile::cuda::store_fragment_row<Out, kColumns>(rows.exists[r] ? to : nullptr,
                                                  given.value_dims - first, sums);
  }

  TW_PTX void put_partial(const AttentionRowPair& rows, int r, const float* sums) const {
    const int column = first_column + lane() % 4 * 2;
    const int rest = rows.exists[r] ? given.value_dims - column : 0;
    float* const to = given.partials + part_row(r) * given.value_dims + column;
    if (given.value_dims % 2 == 0) {
      TW_UNROLL
      for (int i = 0; i < kDims; i += 8)
        if (i < rest) *reinterpret_cast<float2*>(to + i) = {sums[i / 2], sums[i / 2 + 1]};
    } else {
      TW_UNROLL
      for (int i = 0; i < kDims; i += 8) TW_UNROLL
      for (int c = 0; c < 2; ++c)
        if (i + c < rest) to[i + c] = sums[i / 2 + c];
    }
  }
};

}  // namespace tw::kernels

// How the sums of a warpgroup leave it: normalised, staged where its queries were and on by TMA; or
// row by row where a box would reach into another sequence; or in float32, for the sum over splits.
#pragma once

#include "tilewright/kernels/attention_softmax_sm90.h"
#include "tilewright/kernels/attention_tiles_sm90.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/tma.h"

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
  static constexpr int kRowBytes = 128, kChunks = kDims / 64, kChunkBytes = 64 * kRowBytes;
  using Arguments = AttentionArguments<T>;
  using Sums = float[kDims / 2];

  const Arguments& given;
  const AttentionTile& tile;
  int consumer, barrier;  // the warpgroup and its own barrier

  /// `staging` holds its queries, which no thread reads once all have arrived here.
  TW_PTX void put(char* staging, tile::cuda::Mbarrier& empty, AttentionRowState& state,
                  Sums& sums) const {
    using namespace tile::cuda;
    const AttentionRowPair rows(given, tile, consumer);
    const bool whole = !given.partials;
    float sink[2] = {attention_sm90::kLow, attention_sm90::kLow}, factor[2];
    TW_UNROLL
    for (int r = 0; r < 2; ++r)
      if (whole && given.sinks && rows.exists[r]) sink[r] = given.sinks(rows.head[r]);
    state.finish(sink, factor);
    TW_UNROLL
    for (int i = 0; i < kDims / 2; ++i) sums[i] *= factor[i / 2 % 2];
    put_lse(rows, state);
    const int queries = 64 / given.pack, first = tile.first_query + consumer * queries;
    const bool boxes =
        whole && !tile.empty() && (!given.q_offsets || first + queries <= tile.q_len);
    sync_named(barrier, 128);
    if (boxes) {
      stage(staging, sums);
      fence_async_shared();
      sync_named(barrier, 128);
      if (thread() == 0) {
        TW_UNROLL
        for (int c = 0; c < kChunks; ++c)
          store_box(given.out, staging + c * kChunkBytes, c * 64, 0, tile.q_base + first, tile.head,
                    tile.q_outer);
        commit_stores();
        wait_stores_read<0>();
      }
    } else if (whole) {
      put_rows(given.rows, rows, tile.q_outer, tile.q_base, sums);
    } else if (!tile.empty()) {
      put_rows(given.partials, rows, tile.split, absolute(), sums);
    }
    if (thread() == 0 && !tile.empty()) empty.arrive();
  }

 private:
  TW_PTX static int thread() { return int(threadIdx.x) % 128; }
  TW_PTX static int lane() { return thread() % 32; }
  /// The sequence's first query among those of all.
  TW_PTX int64_t absolute() const {
    return given.q_offsets ? tile.q_base : int64_t{tile.batch} * given.queries;
  }

  TW_PTX void put_lse(const AttentionRowPair& rows, const AttentionRowState& state) const {
    if (lane() % 4 != 0) return;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (!rows.exists[r]) continue;
      if (given.partials)
        *given.partial_lse.at(tile.split, absolute() + rows.query[r], rows.head[r]) = state.lse(r);
      else if (given.lse)
        *given.lse.at(tile.q_outer, tile.q_base + rows.query[r], rows.head[r]) = state.lse(r);
    }
  }

  TW_PTX void stage(char* staging, const Sums& sums) const {
    using namespace tile::cuda;
    const int row = thread() / 32 * 16 + lane() % 16, half = lane() / 16;
    TW_UNROLL
    for (int i = 0; i < kDims / 8; i += 2) {
      char* chunk = staging + i / 8 * kChunkBytes;
      const float* s = sums + 4 * i;
      store_matrices(chunk + row * kRowBytes + ((i % 8 + half) ^ row % 8) * 16, pack<T>(s[0], s[1]),
                     pack<T>(s[2], s[3]), pack<T>(s[4], s[5]), pack<T>(s[6], s[7]));
    }
  }

  template <class Out>
  TW_PTX void put_rows(const AttentionRows<Out>& to, const AttentionRowPair& rows, int64_t batch,
                       int64_t base, const Sums& sums) const {
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (!rows.exists[r]) continue;
      Out* const row = to.at(batch, base + rows.query[r], rows.head[r]) + lane() % 4 * 2;
      const int columns = given.value_dims - lane() % 4 * 2;
      TW_UNROLL
      for (int i = 0; i < kDims / 8; ++i)
        put_pair(row + 8 * i, columns - 8 * i, sums[4 * i + 2 * r], sums[4 * i + 2 * r + 1]);
    }
  }
  TW_PTX static void put_pair(T* to, int columns, float a, float b) {
    const uint32_t both = tile::cuda::pack<T>(a, b);
    if (columns > 1)
      *reinterpret_cast<uint32_t*>(to) = both;
    else if (columns == 1)
      *reinterpret_cast<uint16_t*>(to) = uint16_t(both);
  }
  TW_PTX static void put_pair(float* to, int columns, float a, float b) {
    if (columns > 0) to[0] = a;
    if (columns > 1) to[1] = b;
  }
};

}  // namespace tw::kernels

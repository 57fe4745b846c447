// Consumers of attention on Hopper where queries are few and keys and values have 8 bits: memory
// bounds it, if nothing is done twice.
//
// Products lie across: keys are the rows of the one, dims those of the other, and queries (times
// heads) are columns, of which eight are enough. Each warp has 16 keys of every block, with maxima
// and sums of its own, which are merged at the end of a tile. The matrix instruction of a warp
// takes its left operand from registers, so numbers are widened on the way there. Of keys any order
// of dims serves that queries have, too: a lane reads neighbouring ones. Of values two neighbours
// are moved as one number of 16 bits.
//
// Products are of f16, which all numbers of 8 bits are. Queries of bf16 are multiplied by a power
// of two for each row; scales of values become part of the exponents of weights, so that these are
// as exact as scores are, whatever the scales.
#pragma once

#include "tilewright/kernels/attention_across_merge_sm90.h"
#include "tilewright/tile/cuda/half_operand.h"
#include "tilewright/tile/cuda/matrix.h"
#include "tilewright/tile/cuda/mma.h"

namespace tw::kernels {

template <class T, class U, AttentionBuild kBuild>
struct AttentionAcross : AttentionBlock<T, kBuild>, attention_across::Place {
  using Block = AttentionBlock<T, kBuild>;
  using Arguments = AttentionArguments<T>;
  using Block::kBoxBytes, Block::kBoxRowBytes, Block::kDims, Block::kKeys;
  using Block::kQueryChunkBytes, Block::kRowBytes, Block::kValueDims;
  using typename Block::Position;
  using typename Block::QueryBuffer;
  using typename Block::Shared;
  using TilePlace = typename Block::Tiles::Position;
  using State = AttentionAcrossState<kBuild>;
  using Scales = AttentionAcrossScales<Arguments, kBuild>;
  static constexpr int kTiles = kBuild.across / 8;  // of columns
  static constexpr int kSteps = kDims / 16, kValueTiles = kValueDims / 16;
  static constexpr int kOfWarp = Scales::kOfWarp;  // keys of a block
  static constexpr float kLow = attention_sm90::kLow;
  using Operand = tile::cuda::HalfOperand<U>;

  const Arguments& given;

  TW_PTX explicit AttentionAcross(const Arguments& arguments) : given(arguments) {}

  TW_PTX void operator()(Shared& shared) const {
    TilePlace tiles;
    Position blocks;
    QueryBuffer queries;
    for (int parity = 0;; parity ^= 1) {
      const AttentionTile& tile = shared.tiles.wait(tiles);
      if (tile.ends) return;
      State state;
      if (!tile.empty()) attend(shared, tile, blocks, queries, state);
      AttentionAcrossMerge<T, kBuild>{given}(shared.merge, tile, parity, state);
      shared.tiles.finish(tiles);
    }
  }

 private:
  using Queries = attention_across::Queries<T, kSteps>;
  /// Of a column of each tile of columns, or of two.
  using Pairs = float[kTiles][2];
  using Scores = float[kTiles][4];  // of keys group() and 8 further on, columns 2 member() and next

  TW_PTX static float shuffled(float x, int from) { return __shfl_sync(0xffffffffu, x, from); }

  TW_PTX static void release(tile::cuda::Mbarrier& empty) {
    __syncwarp();
    if (lane() == 0) empty.arrive();
  }

  TW_PTX void attend(Shared& shared, const AttentionTile& tile, Position& at, QueryBuffer& buffer,
                     State& state) const {
    Queries queries[kTiles];
    Pairs unit;                   // what products are multiplied with, beside the scale of the key
    float start[kTiles][4] = {};  // of products, that makes up for the operands' offset
    shared.q_full[buffer.index][0].wait(buffer.phase);
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      const char* const row = shared.q[buffer.index][0] + (8 * n + group()) * kRowBytes;
      queries[n].template load<kQueryChunkBytes>(row, group());
      const float scale = given.score_scale != 0 ? given.score_scale : given.exponent_scale;
      TW_UNROLL
      for (int c = 0; c < 2; ++c)
        unit[n][c] = shuffled(queries[n].factor, 4 * (2 * member() + c)) * scale * Operand::kUnit;
      if constexpr (Operand::kOffset != 0) {
        const uint32_t offset = tile::cuda::pack<f16>(-Operand::kOffset / Operand::kUnit,
                                                      -Operand::kOffset / Operand::kUnit);
        TW_UNROLL
        for (int i = 0; i < kSteps; ++i)
          tile::cuda::mma(start[n], {offset, offset, offset, offset}, queries[n].words[i], f16{});
      }
    }
    release(shared.q_empty[buffer.index][0]);
    buffer.next();

    const AttentionSpan inner = tile.inner();
    int block = tile.last_block - 1;
    Scales scales(given, tile, block);
    for (; block >= tile.first_block; --block, at.next())
      step(shared, tile, inner, at, block, scales.next(given, tile), queries, start, unit, state);
  }

  /// 16 bytes of a row.
  TW_PTX static const char* unit_of(const char* block, int row, int unit) {
    if constexpr (kBoxRowBytes < kRowBytes) return block + row * kBoxRowBytes + unit * 16;
    return block + unit / 8 * kBoxBytes + row * kRowBytes + (unit % 8 ^ row % 8) * 16;
  }

  TW_PTX void step(Shared& shared, const AttentionTile& tile, const AttentionSpan& inner,
                   const Position& at, int block, float scale, const Queries (&queries)[kTiles],
                   const float (&start)[kTiles][4], const Pairs& unit, State& state) const {
    const int first = block * kKeys;
    const bool cut = first < inner.begin || first + kKeys > inner.end;
    Scores scores;
    multiply_keys(shared, at, queries, start, scores);
    float key_scale[2], value_scale[2], lift[2];
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      key_scale[r] = shuffled(scale, group() + 8 * r);
      value_scale[r] = shuffled(scale, kOfWarp + group() + 8 * r);
      lift[r] = __log2f(fabsf(value_scale[r]));
    }
    Scores lifted;
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int i = 0; i < 4; ++i) {
      float& score = scores[n][i];
      score *= key_scale[i / 2] * unit[n][i % 2];
      if (given.score_scale != 0) score = attention_sm90::tanh(score) * given.exponent_scale;
      lifted[n][i] = score + lift[i / 2];
    }
    if (cut) mask(tile, first, scores, lifted);
    raise(scores, lifted, state);
    uint32_t weights[kTiles][2];
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      float w[2];
      TW_UNROLL
      for (int c = 0; c < 2; ++c) {
        state.total[n][c] += state.base[n][c].weight(scores[n][2 * r + c]);
        w[c] = state.lifted[n][c].weight(lifted[n][2 * r + c]);
      }
      uint32_t pair = tile::cuda::pack<f16>(w[0], w[1]);
      if (value_scale[r] < 0) pair ^= 0x80008000u;
      weights[n][r] = tile::cuda::transposed_matrix(pair);
    }
    multiply_values(shared, at, cut ? tile.kv_len - first : kKeys, weights, state);
  }

  TW_PTX static void multiply_keys(Shared& shared, const Position& at,
                                   const Queries (&queries)[kTiles],
                                   const float (&start)[kTiles][4], Scores& scores) {
    constexpr int kUnits = kDims / 64;  // of a lane and row
    shared.k_full[at.index].wait(at.phase);
    uint32_t raw[2][4 * kUnits];
    TW_UNROLL
    for (int r = 0; r < 2; ++r) TW_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      const int row = warp() * kOfWarp + group() + 8 * r;
      attention_across::put_words(
          raw[r], 4 * i,
          *reinterpret_cast<const uint4*>(unit_of(shared.k[at.index], row, member() * kUnits + i)));
    }
    release(shared.k_empty[at.index]);
    float sums[2][kTiles][4] = {};  // two, that each waits half as long for itself
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int i = 0; i < 4; ++i) sums[0][n][i] = start[n][i];
    TW_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      uint32_t above[2], below[2];
      Operand::offset(raw[0][i], above);
      Operand::offset(raw[1][i], below);
      const uint32_t keys[4] = {above[0], below[0], above[1], below[1]};
      TW_UNROLL
      for (int n = 0; n < kTiles; ++n)
        tile::cuda::mma(sums[i % 2][n], keys, queries[n].words[i], f16{});
    }
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int i = 0; i < 4; ++i) scores[n][i] = sums[0][n][i] + sums[1][n][i];
  }

  /// Of a block whose keys some column does not see.
  TW_PTX void mask(const AttentionTile& tile, int first, Scores& scores, Scores& lifted) const {
    const int key = first + warp() * kOfWarp + group();
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int c = 0; c < 2; ++c) {
      const int query = tile.first_query + (8 * n + 2 * member() + c) / given.pack;
      const AttentionSpan seen = tile.seen(given, query);
      TW_UNROLL
      for (int r = 0; r < 2; ++r)
        if (key + 8 * r < seen.begin || key + 8 * r >= seen.end)
          scores[n][2 * r + c] = lifted[n][2 * r + c] = kLow;
    }
  }

  /// Raises the bases of weights, if any would be large.
  TW_PTX static void raise(const Scores& scores, const Scores& lifted, State& state) {
    bool exceeds = false;
    Pairs top, lifted_top;
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int c = 0; c < 2; ++c) {
      top[n][c] = fmaxf(scores[n][c], scores[n][2 + c]);
      lifted_top[n][c] = fmaxf(lifted[n][c], lifted[n][2 + c]);
      exceeds |= top[n][c] > state.base[n][c].ceiling;
      exceeds |= lifted_top[n][c] > state.lifted[n][c].ceiling;
    }
    if (!__any_sync(0xffffffffu, exceeds)) return;
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int c = 0; c < 2; ++c) {
      using attention_across::max_over_groups;
      state.total[n][c] *= state.base[n][c].raise(max_over_groups(top[n][c]));
      const float keep = state.lifted[n][c].raise(max_over_groups(lifted_top[n][c]));
      TW_UNROLL
      for (int j = 0; j < kValueTiles; ++j) {
        state.sums[n][j][c] *= keep;
        state.sums[n][j][2 + c] *= keep;
      }
    }
  }

  /// Of `keys` of the block that are the sequence's; what lies behind them may be NaN.
  TW_PTX static void multiply_values(Shared& shared, const Position& at, int keys,
                                     const uint32_t (&weights)[kTiles][2], State& state) {
    shared.v_full[at.index].wait(at.phase);
    // Pairs of dims of two keys, and of two that are 8 further on; for the next 16 dims.
    uint32_t raw[kValueTiles / 2][4];
    TW_UNROLL
    for (int j = 0; j < kValueTiles / 2; ++j)
      tile::cuda::load_matrices_transposed(
          raw[j], unit_of(shared.v[at.index], warp() * kOfWarp + lane() % 16, 2 * j + lane() / 16));
    release(shared.v_empty[at.index]);
    if (keys < kKeys) clear_after(keys - warp() * kOfWarp, raw);
    TW_UNROLL
    for (int j = 0; j < kValueTiles; ++j) {
      uint32_t first[2], second[2];
      Operand::every_other(raw[j / 2][j % 2 * 2], first);
      Operand::every_other(raw[j / 2][j % 2 * 2 + 1], second);
      const uint32_t values[4] = {first[0], first[1], second[0], second[1]};
      TW_UNROLL
      for (int n = 0; n < kTiles; ++n) tile::cuda::mma(state.sums[n][j], values, weights[n], f16{});
    }
  }
  /// Of the warp's keys, `keys` stay.
  template <int kCount>
  TW_PTX static void clear_after(int keys, uint32_t (&raw)[kCount][4]) {
    TW_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int key = 2 * member() + 8 * half;
      const uint32_t stays = (key < keys ? 0xffffu : 0) | (key + 1 < keys ? 0xffff0000u : 0);
      TW_UNROLL
      for (int j = 0; j < kCount; ++j) raw[j][half] &= stays, raw[j][2 + half] &= stays;
    }
  }
};

}  // namespace tw::kernels

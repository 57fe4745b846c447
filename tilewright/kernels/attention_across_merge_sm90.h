// What the warps of attention whose queries lie across (attention_across_sm90.h) find of their
// keys, and how it is merged at the end of a tile, normalised and put.
#pragma once

#include "tilewright/kernels/attention_across_operands_sm90.h"
#include "tilewright/tile/cuda/fence.h"

namespace tw::kernels {

namespace attention_across {

/// What weights, powers of two, are relative to.
struct Base {
  static constexpr float kLow = attention_sm90::kLow;
  /// Weights may be up to 2^kSlack before the base is raised, which then happens rarely.
  static constexpr float kSlack = 6;
  float exponent = 0, ceiling = kLow;  // of exponents; -inf as long as all have been

  TW_PTX float high() const { return ceiling == kLow ? kLow : exponent; }
  TW_PTX float weight(float of) const { return attention_sm90::exp2(of - exponent); }
  /// Raised to `top`; what has been summed is to be multiplied by what is returned.
  TW_PTX float raise(float top) {
    const float before = high(), raised = fmaxf(top, before);
    if (raised != kLow) exponent = raised, ceiling = raised + kSlack;
    return attention_sm90::exp2(before - exponent);
  }
};

}  // namespace attention_across

/// What the warp's keys have come to. The weights of sums have the scale of the value in their
/// exponent.
template <AttentionBuild kBuild>
struct AttentionAcrossState {
  static constexpr int kTiles = kBuild.across / 8;

  attention_across::Base base[kTiles][2], lifted[kTiles][2];
  float total[kTiles][2] = {};
  float sums[kTiles][kBuild.value_dims / 16][4] = {};
};

template <class T, AttentionBuild kBuild>
struct AttentionAcrossMerge : attention_across::Place {
  using Arguments = AttentionArguments<T>;
  using Merge = AttentionMerge<kBuild>;
  using State = AttentionAcrossState<kBuild>;
  static constexpr int kColumns = kBuild.across, kTiles = kColumns / 8;  // of columns
  static constexpr int kValueTiles = kBuild.value_dims / 16;
  static constexpr int kWarps = kBuild.consumer_warps(), kThreads = 32 * kWarps;
  static constexpr int kBarrier = 1;  // the first named one is the block's

  const Arguments& given;

  TW_PTX explicit AttentionAcrossMerge(const Arguments& arguments) : given(arguments) {}

  /// In the order of warps, so that repeated calls have the same bits.
  TW_PTX void operator()(Merge& shared, const AttentionTile& tile, int parity, State& state) const {
    using namespace tile::cuda;
    auto& found = shared.found[parity];
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int c = 0; c < 2; ++c) {
      const float total = attention_across::sum_over_groups(state.total[n][c]);
      if (group() == 0)
        found[warp()][8 * n + 2 * member() + c] = {state.base[n][c].high(),
                                                   state.lifted[n][c].high(), total};
    }
    sync_named(kBarrier, kThreads);
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int c = 0; c < 2; ++c) {
      const Found all = whole_of(found, 8 * n + 2 * member() + c);
      const float share = attention_sm90::exp2(state.lifted[n][c].high() - finite(all.lifted));
      TW_UNROLL
      for (int j = 0; j < kValueTiles; ++j) {
        state.sums[n][j][c] *= share;
        state.sums[n][j][2 + c] *= share;
      }
    }
    constexpr int kHalf = kWarps / 2;
    if (warp() >= kHalf) hand_over<false>(shared.sums[warp() - kHalf], state);
    sync_named(kBarrier, kThreads);
    if (warp() < kHalf) hand_over<true>(shared.sums[warp()], state);
    sync_named(kBarrier, kThreads);
    put(shared.sums, found, tile);
  }

 private:
  static constexpr float kLow = attention_sm90::kLow;

  using Found = typename Merge::Found;

  /// -inf - -inf is NaN, but these weigh nothing.
  TW_PTX static float finite(float high) { return AttentionRowState::base(high); }

  /// What all warps have found of a column.
  TW_PTX static Found whole_of(const Found (&found)[kWarps][kColumns], int column) {
    Found out{kLow, kLow, 0};
    TW_UNROLL
    for (int i = 0; i < kWarps; ++i) {
      out.high = fmaxf(out.high, found[i][column].high);
      out.lifted = fmaxf(out.lifted, found[i][column].lifted);
    }
    TW_UNROLL
    for (int i = 0; i < kWarps; ++i)
      out.total +=
          found[i][column].total * attention_sm90::exp2(found[i][column].high - finite(out.high));
    return out;
  }

  /// Two and two dims of a column each, a lane's beside the next lane's. kAdds: to what is there.
  template <bool kAdds>
  TW_PTX static void hand_over(float (&to)[Merge::kOfWarp], const State& state) {
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) TW_UNROLL
    for (int c = 0; c < 2; ++c) TW_UNROLL
    for (int j = 0; j < kValueTiles; j += 2) {
      const int place = ((2 * n + c) * (kValueTiles / 2) + j / 2) * 32 + lane();
      float4& four = reinterpret_cast<float4*>(to)[place];
      float4 sums{state.sums[n][j][c], state.sums[n][j][2 + c], state.sums[n][j + 1][c],
                  state.sums[n][j + 1][2 + c]};
      if constexpr (kAdds) sums.x += four.x, sums.y += four.y, sums.z += four.z, sums.w += four.w;
      four = sums;
    }
  }

  TW_PTX void put(const float (&sums)[kWarps / 2][Merge::kOfWarp],
                  const Found (&found)[kWarps][kColumns], const AttentionTile& tile) const {
    const int slot = tile.slot;
    TW_NO_UNROLL
    for (int at = warp() * 32 + lane(); at < Merge::kOfWarp / 4; at += kThreads) {
      float four[4] = {};
      TW_UNROLL
      for (int i = 0; i < kWarps / 2; ++i) {
        const float4 more = reinterpret_cast<const float4*>(sums[i])[at];
        four[0] += more.x, four[1] += more.y, four[2] += more.z, four[3] += more.w;
      }
      // As hand_over puts them.
      const int j = at / 32 % (kValueTiles / 2), pair = at / 32 / (kValueTiles / 2);
      const int row = pair / 2 * 8 + 2 * member() + pair % 2;
      const int column = 32 * j + 2 * group();
      const int query = row / given.pack, inside = tile.first_query + query;
      if (query >= kColumns / given.pack || inside >= tile.q_len) continue;
      const int head = tile.head * given.pack + row - query * given.pack;
      const Found all = whole_of(found, row);
      float lse;
      const float factor = finish(all, slot < 0 && given.sinks ? given.sinks(head) : kLow, lse);
      TW_UNROLL
      for (float& sum : four) sum *= factor;
      if (slot >= 0) {
        const int part = slot * given.part_rows + row;
        if (column == 0) given.partial_lse[part] = lse;
        put_pairs(given.partials + part * given.value_dims, column, four);
      } else {
        const int at_query = tile.q_base + inside;
        if (column == 0 && given.lse) *given.lse.at(tile.q_outer, at_query, head) = lse;
        put_pairs(given.rows.at(tile.q_outer, at_query, head), column, four);
      }
    }
  }
  /// The factor that normalises sums, with the sink's share.
  TW_PTX static float finish(const Found& all, float sink, float& lse) {
    constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
    const float exponent = sink * kLog2E, high = fmaxf(all.high, exponent);
    const float total = all.total * attention_sm90::exp2(all.high - finite(high)) +
                        attention_sm90::exp2(exponent - finite(high));
    lse = (high + __log2f(total)) * kLn2;
    return total == 0 ? 0 : attention_sm90::exp2(finite(all.lifted) - finite(high)) / total;
  }
  /// At `column` and the next, and 16 further on, as far as the row goes.
  template <class Out>
  TW_PTX void put_pairs(Out* row, int column, const float (&four)[4]) const {
    TW_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int at = column + 16 * i;
      if (given.value_dims % 2 == 0 && at < given.value_dims) {
        if constexpr (sizeof(Out) == 4)
          *reinterpret_cast<float2*>(row + at) = {four[2 * i], four[2 * i + 1]};
        else
          *reinterpret_cast<uint32_t*>(row + at) =
              tile::cuda::pack<Out>(four[2 * i], four[2 * i + 1]);
      } else {
        if (at < given.value_dims) row[at] = Out(four[2 * i]);
        if (at + 1 < given.value_dims) row[at + 1] = Out(four[2 * i + 1]);
      }
    }
  }
};

}  // namespace tw::kernels

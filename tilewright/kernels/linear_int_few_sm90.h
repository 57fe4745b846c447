// The linear layer with weights of 4 or 8 bits for a few tokens: bound by reading the weights,
// which go from memory straight into the registers of the warp that multiplies them.
//
// The matrix instruction does not care which values of k its columns are, as long as both operands
// agree: a lane takes an eighth or more of adjacent ones in one load. A warp has all of the block's
// features and every eighth span; warps and blocks of a cluster add up in order. Whole numbers are
// exact in 16 bits, and scales, of a span or of each fourth of one, multiply float32 sums, as in
// linear_int_sm90.h.
#pragma once

#include "tilewright/kernels/linear_int_store_sm90.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/integers.h"
#include "tilewright/tile/cuda/mma.h"

namespace tw::kernels {

template <class T, int kBits, LinearIntFewBuild<kBits> kBuild>
struct LinearIntFewSm90 {
  using Span = typename LinearIntFewBuild<kBits>::Span;
  using Integers = tile::cuda::Integers<T, kBits>;
  static constexpr int kThreads = LinearIntFewBuild<kBits>::kThreads;
  static constexpr int kTokens = kBuild.tokens, kTokenTiles = kTokens / 8;
  static constexpr int kFeatures = kBuild.features, kTiles = kFeatures / 16;
  static constexpr int kWays = kThreads / 32;  // warps
  static constexpr int kSpan = Span::kDepth, kEights = Span::kLaneEights;
  static constexpr int kParts = kBuild.narrow ? kEights : 1;  // of a span, with a scale each
  using Store = LinearIntStore<T, kTokens, kFeatures, kWays, kThreads>;
  const LinearIntArguments<T>& given;
  // A block is a part of k, of a tile of tokens, of a tile of features, in this order.
  const int split = int(blockIdx.x) % given.splits;
  const int first_token = int(blockIdx.x) / given.splits % given.token_tiles * kTokens;
  const int first_feature = int(blockIdx.x) / given.splits / given.token_tiles * kFeatures;
  const int spans = (given.depth + kSpan - 1) / kSpan;
  const int first_span = split * spans / given.splits;
  const int last_span = (split + 1) * spans / given.splits;

  TW_PTX void operator()(float* all) const {
    ask_for_weights();
    tile::cuda::wait_for_grids_before();
    float sums[kTiles][kTokenTiles][4] = {};
    add_spans(sums);
    tile::cuda::launch_grids_after();
    TW_UNROLL
    for (int t = 0; t < kTiles; ++t) TW_UNROLL
    for (int i = 0; i < kTokenTiles; ++i)
      Store::keep(all, way(), 8 * i, 16 * t + lane() / 4, sums[t][i]);
    Store{given}.put(all, first_token, first_feature);
  }

 private:
  TW_PTX static int lane() { return int(threadIdx.x) % 32; }
  TW_PTX static int way() { return int(threadIdx.x) / 32; }
  /// This feature, or the last one there is, counted from the block's first.
  TW_PTX int existing(int row) const {
    return min(row, int(given.out.size(1)) - 1 - first_feature);
  }
  /// Where eight i of this lane begins: wide lanes have those of a quarter of a span, narrow ones
  /// one of each part.
  TW_PTX static int eight_k(int span, int i) {
    constexpr int kEight = Span::kEight, kParted = 4 * kEight;
    return span * kSpan + (kBuild.narrow ? lane() % 4 * kEight + i * kParted
                                         : lane() % 4 * (kSpan / 4) + i * kEight);
  }

  /// Asks for the beginning of this block's weights while the kernel before still runs. That reads
  /// nothing.
  TW_PTX void ask_for_weights() const {
    constexpr int kMost = 1024;  // bytes of a row
    const int n = first_feature + int(threadIdx.x);
    const int begin = first_span * Span::kBytes, end = last_span * Span::kBytes;
    const int bytes = min(min(end, given.depth * kBits / 8) - begin, kMost) / 16 * 16;
    if (int(threadIdx.x) < kFeatures && n < given.out.size(1) && bytes > 0)
      tile::cuda::prefetch_l2(given.weight_data + n * given.weight_stride + begin, bytes);
  }

  /// What a lane has of a span's weights, as it lies in memory: of two features of each tile.
  struct Weights {
    uint32_t words[kTiles][2][4];
  };
  /// Offsets from the block's first feature fit in 32 bits, which makes for short addresses.
  TW_PTX void load(int span, int t, Weights& to) const {
    const int8_t* const block = given.weight_data + first_feature * given.weight_stride;
    TW_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int row = existing(16 * t + 8 * h + lane() / 4);
      const uint32_t offset = uint32_t(row) * uint32_t(given.weight_stride);
      const auto load_at = [&]<class W>(W& words, int k) {
        if (k < given.depth)
          words = __ldg(reinterpret_cast<const W*>(block + (offset + uint32_t(k * kBits / 8))));
      };
      uint32_t(&words)[4] = to.words[t][h];
      if constexpr (kBuild.narrow && kBits == 4) {
        TW_UNROLL
        for (int i = 0; i < kEights; ++i) {
          words[i] = 0;
          load_at(words[i], eight_k(span, i));
        }
      } else if constexpr (kBuild.narrow) {
        TW_UNROLL
        for (int i = 0; i < kEights; ++i) {
          uint2 two = {};
          load_at(two, eight_k(span, i));
          words[2 * i] = two.x, words[2 * i + 1] = two.y;
        }
      } else {
        uint4 four = {};
        load_at(four, eight_k(span, 0));
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
      }
    }
  }

  /// Scales and zero points of a part of a span. Four lanes share features: each has those of one
  /// tile, from which the others get them.
  struct Scales {
    float scale[2];
    uint32_t base[2];  // pairs of T, as Integers ask for them

    TW_PTX Scales of_tile(int t) const {
      if constexpr (kTiles == 1) return *this;
      const int from = lane() / 4 * 4 + t;
      Scales out;
      TW_UNROLL
      for (int h = 0; h < 2; ++h) {
        out.scale[h] = __shfl_sync(~0u, scale[h], from);
        out.base[h] = __shfl_sync(~0u, base[h], from);
      }
      return out;
    }
  };
  struct RawScales {
    T scale[2];
    int8_t zero[2];

    TW_PTX Scales widen() const {
      Scales out;
      TW_UNROLL
      for (int h = 0; h < 2; ++h) {
        const float base = Integers::raised(zero[h]);
        out.scale[h] = float(scale[h]);
        out.base[h] = tile::cuda::pack<T>(base, base);
      }
      return out;
    }
  };
  TW_PTX void load_scales(int span, RawScales (&to)[kParts]) const {
    TW_UNROLL
    for (int i = 0; i < kParts; ++i) {
      constexpr int kUnits = kSpan / LinearIntFewBuild<kBits>::kUnit;
      const int unit = span * kUnits + i;
      const bool own = kParts == 1 && given.units_per_group == kUnits;
      to[i] = scales_of(own ? span : int(uint32_t(unit) / uint32_t(given.units_per_group)));
    }
  }
  TW_PTX RawScales scales_of(int found) const {
    const int group = min(found, given.groups - 1);
    RawScales out;
    TW_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int row = lane() % 4 % kTiles * 16 + 8 * h + lane() / 4;
      const int64_t n = first_feature + existing(row);
      out.scale[h] = given.scale(n, group);
      out.zero[h] = given.zero ? given.zero(n, group) : int8_t(Integers::kNoZero);
    }
    return out;
  }

  /// The tokens of a span as right operands: two instructions for each eight.
  using Tokens = uint32_t[kTokenTiles][kEights][2][2];
  TW_PTX void load_tokens(int span, Tokens& to) const {
    TW_UNROLL
    for (int i = 0; i < kTokenTiles; ++i) {
      const int64_t token = first_token + 8 * i + lane() / 4;
      const T* const from = given.tokens + token * given.token_stride;
      TW_UNROLL
      for (int j = 0; j < kEights; ++j) {
        uint4 x = {};
        const int k = eight_k(span, j);
        if (token < given.out.size(0) && k < given.depth)
          x = __ldg(reinterpret_cast<const uint4*>(from + k));
        x = Integers::ordered(x);
        to[i][j][0][0] = x.x, to[i][j][0][1] = x.y;
        to[i][j][1][0] = x.z, to[i][j][1][1] = x.w;
      }
    }
  }

  /// The weights of the next span are on their way while one is multiplied.
  TW_PTX void add_spans(float (&sums)[kTiles][kTokenTiles][4]) const {
    int span = first_span + way();
    if (span >= last_span) return;
    Weights weights;
    TW_UNROLL
    for (int t = 0; t < kTiles; ++t) load(span, t, weights);
    RawScales next[kParts];
    load_scales(span, next);
    _Pragma("unroll 1") for (; span < last_span; span += kWays) {
      Tokens tokens;
      load_tokens(span, tokens);
      Scales scales[kParts];
      TW_UNROLL
      for (int i = 0; i < kParts; ++i) scales[i] = next[i].widen();
      const int after = span + kWays < last_span ? span + kWays : span;
      load_scales(after, next);
      TW_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        add_tile(t, weights.words[t], scales, tokens, sums[t]);
        load(after, t, weights);
      }
    }
  }
  TW_PTX static void add_tile(int t, const uint32_t (&words)[2][4], const Scales (&scales)[kParts],
                              const Tokens& tokens, float (&sums)[kTokenTiles][4]) {
    using namespace tile::cuda;
    constexpr int kPartEights = kEights / kParts;
    TW_UNROLL
    for (int i = 0; i < kParts; ++i) {
      const Scales own = scales[i].of_tile(t);
      float part[kTokenTiles][4] = {};
      TW_UNROLL
      for (int j = i * kPartEights; j < (i + 1) * kPartEights; ++j) {
        uint32_t pairs[2][4];
        TW_UNROLL
        for (int h = 0; h < 2; ++h)
          Integers::eight(words[h] + j * Integers::kWords, own.base[h], pairs[h]);
        TW_UNROLL
        for (int s = 0; s < 2; ++s) {
          const uint32_t a[] = {pairs[0][2 * s], pairs[1][2 * s], pairs[0][2 * s + 1],
                                pairs[1][2 * s + 1]};
          TW_UNROLL
          for (int n = 0; n < kTokenTiles; ++n) mma(part[n], a, tokens[n][j][s], T{});
        }
      }
      TW_UNROLL
      for (int n = 0; n < kTokenTiles; ++n) TW_UNROLL
      for (int e = 0; e < 4; ++e)
        sums[n][e] = __builtin_fmaf(part[n][e], own.scale[e / 2], sums[n][e]);
    }
  }
};

}  // namespace tw::kernels

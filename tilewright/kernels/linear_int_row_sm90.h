// The linear layer with weights of 4 or 8 bits for one to eight tokens: bound by reading the
// weights once.
//
// A block has tiles of 16 features, its warps each a stretch of k, of which they keep several spans
// on their way into registers: enough bytes from the warps of a multiprocessor to draw the memory's
// bandwidth. The matrix instruction is fed as in linear_int_few_sm90.h, but a warp's stretch of
// the tokens lies in shared memory, as the operands want it, and the beginning of a block's weights
// is asked for while the kernel before still runs. Warps add up in order.
#pragma once

#include "tilewright/kernels/linear_int_build_sm90.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/integers.h"
#include "tilewright/tile/cuda/load_if.h"
#include "tilewright/tile/cuda/mma.h"

namespace tw::kernels {

template <class T, int kBits, LinearIntRowBuild<kBits> kBuild>
struct LinearIntRowSm90 {
  using Build = LinearIntRowBuild<kBits>;
  using Span = typename Build::Span;
  using Integers = tile::cuda::Integers<T, kBits>;
  static constexpr int kThreads = kBuild.threads, kWays = kThreads / 32, kSlots = kBuild.slots;
  static constexpr int kFeatures = Build::kFeatures, kSpan = Span::kDepth;
  static constexpr int kPitch = kFeatures + 4;  // of a token: no two lanes' banks are the same
  /// Of each warp.
  struct Sums {
    float of[kWays][Build::kMostTokens][kPitch];
  };
  const LinearIntArguments<T>& given;
  const int tokens = int(given.out.size(0)), features = int(given.out.size(1));
  const int spans = (given.depth + kSpan - 1) / kSpan;
  const int way = tile::cuda::uniform(int(threadIdx.x / 32));  // this warp
  const int step = kWays * given.warp_spans;                   // spans of all warps
  const int first_span = way * given.warp_spans;

  TW_PTX void operator()(Sums& shared, char* x) const {
    ask_for_weights();
    Weights weights = {};
    RawScales scales = {};
    Place at = {int(blockIdx.x), first_span};
    const Lines lines = lines_of(at);
    tile::cuda::wait_for_grids_before();
    TW_UNROLL
    for (int j = 0; j < kSlots; ++j) load(lines, j, weights);
    load_scales(at, scales);
    char* const own = x + way * tokens * given.token_bytes;
    stage_tokens(own);
    Tokens right = {};
    _Pragma("unroll 1") for (; is_tile(at); at = {at.tile + int(gridDim.x), first_span}) {
      float sums[4] = {};
      uint32_t from = tile::cuda::shared_address(own);
      _Pragma("unroll 1") while (at.span < spans) {
        at = add(at, from, weights, scales, right, sums);
        from += given.warp_spans * Build::kTokenSpanBytes;
      }
      put(shared, at.tile, sums);
    }
  }

 private:
  TW_PTX static int lane() { return int(threadIdx.x % 32); }
  /// A feature of a tile, or the last one there is.
  TW_PTX uint32_t feature(int tile, int row) const {
    return uint32_t(min(tile * kFeatures + row, features - 1));
  }

  /// Into L2, the beginning of each feature's weights and the scales, for two tiles to a block: not
  /// all blocks are there while the kernel before still runs. That reads nothing.
  TW_PTX void ask_for_weights() const {
    using namespace tile::cuda;
    if (int(blockIdx.x) >= given.asking_blocks) return;
    constexpr int kRows = 2 * kFeatures, kRowsOfWarp = kRows / kWays;
    static_assert(kRows == 32 && kRowsOfWarp > 0);
    const auto tile_of = [&](int row) {
      return int(blockIdx.x) + row / kFeatures * given.asking_blocks;
    };
    const int own = way * kRowsOfWarp + lane();  // one after another: few to a warp
    const int bytes = min(given.depth * kBits / 8, given.asked_bytes);
    if (lane() < kRowsOfWarp && is_tile({tile_of(own), 0}) && bytes > 0)
      prefetch_l2(weights_at(feature(tile_of(own), own % kFeatures), 0), bytes);
    if (!is_tile({tile_of(lane()), 0})) return;
    const uint32_t n = feature(tile_of(lane()), lane() % kFeatures);
    ask_for_line(given.scale, n, way);
    if (given.zero) ask_for_line(given.zero, n, way);
  }
  template <class S>
  TW_PTX static void ask_for_line(const View<S, 2>& of, uint32_t n, int line) {
    constexpr int kLine = 128 / int(sizeof(S));
    if (line * kLine < int(of.size(1)))
      tile::cuda::prefetch_line(of.data + (n * uint32_t(of.stride(0)) + line * kLine));
  }
  TW_PTX const int8_t* weights_at(uint32_t n, uint32_t byte) const {
    return given.weight_data + (n * uint32_t(given.weight_stride) + byte);
  }

  /// This warp's part of the tokens as right operands, eight values of k in 16 bytes, with zeros up
  /// to whole steps.
  TW_PTX void stage_tokens(char* x) const {
    constexpr int kAtOnce = 2;  // steps
    const int bytes = given.warp_spans * Build::kTokenSpanBytes;
    for (int t = 0; t < tokens; ++t) {
      const uint4* const from =
          reinterpret_cast<const uint4*>(given.tokens + t * given.token_stride);
      char* to = x + t * given.token_bytes;
      for (int first = first_span; first < spans; first += kAtOnce * step) {
        uint4 eights[kAtOnce][kShare];
        TW_UNROLL
        for (int s = 0; s < kAtOnce; ++s) load_tokens(from, first + s * step, eights[s]);
        TW_UNROLL
        for (int s = 0; s < kAtOnce; ++s, to += bytes)
          if (first + s * step < spans) keep_tokens(to, eights[s]);
      }
    }
    __syncwarp();
  }
  static constexpr int kEights = Span::kEights;
  static constexpr int kShare = kSlots * kEights / 32;  // of a step, of a lane
  TW_PTX void load_tokens(const uint4* from, int span, uint4 (&to)[kShare]) const {
    TW_UNROLL
    for (int i = 0; i < kShare; ++i) {
      const int own = i * 32 + lane(), eight = span * kEights + own;
      to[i] = {};
      if (own < given.warp_spans * kEights && eight * Span::kEight < given.depth)
        to[i] = __ldg(from + eight);
    }
  }
  TW_PTX void keep_tokens(char* to, const uint4 (&from)[kShare]) const {
    TW_UNROLL
    for (int i = 0; i < kShare; ++i) {
      const int own = i * 32 + lane();
      if (own >= given.warp_spans * kEights) break;
      const int place = own / kEights * Build::kTokenSpanBytes + own % Span::kLaneEights * 64 +
                        own % kEights / Span::kLaneEights * 16;
      *reinterpret_cast<uint4*>(to + place) = Integers::ordered(from[i]);
    }
  }

  struct Place {
    int tile, span;
  };
  TW_PTX bool is_tile(Place at) const { return at.tile * kFeatures < features; }
  TW_PTX Place after(Place at) const {
    return at.span + step < spans ? Place{at.tile, at.span + step}
                                  : Place{at.tile + int(gridDim.x), first_span};
  }

  /// Where a lane's weights lie: 16 adjacent bytes of each span, of two features.
  struct Lines {
    const int8_t* of[2];
    int count;  // of spans that are there
  };
  TW_PTX Lines lines_of(Place at) const {
    Lines out;
    const int own = lane() % 4 * (kSpan / 4);  // k
    TW_UNROLL
    for (int h = 0; h < 2; ++h)
      out.of[h] = weights_at(feature(at.tile, 8 * h + lane() / 4),
                             uint32_t(at.span * Span::kBytes + lane() % 4 * Span::kLaneBytes));
    const int there = (given.depth - own + kSpan - 1) / kSpan - at.span;
    out.count = is_tile(at) ? min(there, given.warp_spans) : 0;
    return out;
  }
  /// What is not there keeps old bits: finite, and the tokens are zero.
  using Weights = uint4[kSlots][2];
  TW_PTX static void load(const Lines& lines, int j, Weights& to) {
    TW_UNROLL
    for (int h = 0; h < 2; ++h)
      tile::cuda::load_once_if(j < lines.count, to[j][h], lines.of[h] + j * Span::kBytes);
  }

  /// Scales and zero points: a lane has those of one span, for the four lanes of its features.
  struct RawScales {
    T scale[2];
    int8_t zero[2];
  };
  TW_PTX void load_scales(Place at, RawScales& to) const {
    const int span = at.span + lane() % kSlots;
    const int found =
        given.spans_per_group == 1 ? span : int(uint32_t(span) / uint32_t(given.spans_per_group));
    const uint32_t group = uint32_t(min(found, given.groups - 1));
    TW_UNROLL
    for (int h = 0; h < 2; ++h) {
      const uint32_t n = feature(at.tile, 8 * h + lane() / 4);
      to.scale[h] = given.scale.data[n * uint32_t(given.scale.stride(0)) + group];
      to.zero[h] = int8_t(Integers::kNoZero);
      if (given.zero) to.zero[h] = given.zero.data[n * uint32_t(given.zero.stride(0)) + group];
    }
  }
  /// A scale, zero beyond the last span, and above it what Integers ask for.
  TW_PTX static uint32_t packed(T scale, int8_t zero, bool is_there) {
    return tile::cuda::pack<T>(is_there ? float(scale) : 0.0f, Integers::raised(zero));
  }

  using Tokens = uint4[2];
  /// Adds kSlots spans, each followed by the load of what takes its place.
  TW_PTX Place add(Place at, uint32_t x, Weights& weights, RawScales& raw, Tokens& right,
                   float (&sums)[4]) const {
    const bool is_there = at.span + lane() % kSlots < spans;
    uint32_t scales[2];
    TW_UNROLL
    for (int h = 0; h < 2; ++h) scales[h] = packed(raw.scale[h], raw.zero[h], is_there);
    const Place next = after(at);
    if (is_tile(next))
      load_scales(next, raw);
    else
      tile::cuda::launch_grids_after();  // not sooner: what it asks for would delay these loads
    const Lines lines = lines_of(next);
    const int token = lane() / 4;
    const uint32_t from = x + token * given.token_bytes + lane() % 4 * 16;
    TW_UNROLL
    for (int j = 0; j < kSlots; ++j) {
      if (j == given.warp_spans) break;
      uint32_t pair[2];
      TW_UNROLL
      for (int h = 0; h < 2; ++h) pair[h] = __shfl_sync(~0u, scales[h], lane() / 4 * 4 + j);
      add_span(weights[j], pair, from + j * Build::kTokenSpanBytes, token < tokens, right, sums);
      load(lines, j, weights);
    }
    return next.tile == at.tile ? next : Place{at.tile, spans};
  }
  TW_PTX static void add_span(const uint4 (&weights)[2], const uint32_t (&scales)[2], uint32_t from,
                              bool has_token, Tokens& right, float (&sums)[4]) {
    using namespace tile::cuda;
    constexpr uint32_t kTwice = 0x3232;
    const uint32_t words[2][4] = {{weights[0].x, weights[0].y, weights[0].z, weights[0].w},
                                  {weights[1].x, weights[1].y, weights[1].z, weights[1].w}};
    const uint32_t base[2] = {__byte_perm(scales[0], 0, kTwice), __byte_perm(scales[1], 0, kTwice)};
    float part[4] = {};
    load_shared_if(has_token, right[0], from);
    TW_UNROLL
    for (int i = 0; i < Span::kLaneEights; ++i) {
      if (i + 1 < Span::kLaneEights)
        load_shared_if(has_token, right[(i + 1) % 2], from + (i + 1) * 64);
      const uint4 x = right[i % 2];
      const uint32_t b[2][2] = {{x.x, x.y}, {x.z, x.w}};
      uint32_t pairs[2][4];
      TW_UNROLL
      for (int h = 0; h < 2; ++h)
        Integers::eight(words[h] + i * Integers::kWords, base[h], pairs[h]);
      TW_UNROLL
      for (int s = 0; s < 2; ++s) {
        const uint32_t a[] = {pairs[0][2 * s], pairs[1][2 * s], pairs[0][2 * s + 1],
                              pairs[1][2 * s + 1]};
        mma(part, a, b[s], T{});
      }
    }
    TW_UNROLL
    for (int e = 0; e < 4; ++e)
      sums[e] = __builtin_fmaf(part[e], float(T::from_bits(uint16_t(scales[e / 2]))), sums[e]);
  }

  TW_PTX void put(Sums& shared, int tile, const float (&sums)[4]) const {
    TW_UNROLL
    for (int e = 0; e < 4; ++e)
      shared.of[way][lane() % 4 * 2 + e % 2][lane() / 4 + e / 2 * 8] = sums[e];
    const int token = int(threadIdx.x) / kFeatures, row = int(threadIdx.x) % kFeatures;
    const int64_t n = tile * kFeatures + row;
    const bool is_result = token < tokens && n < features;
    float total = is_result && given.bias ? float(given.bias(n)) : 0.0f;
    __syncthreads();
    if (is_result) {
      TW_UNROLL
      for (int w = 0; w < kWays; ++w) total += shared.of[w][token][row];
      given.out(token, n) = T(total);
    }
    if (is_tile({tile + int(gridDim.x), 0})) __syncthreads();  // before the next tile's sums
  }
};

}  // namespace tw::kernels

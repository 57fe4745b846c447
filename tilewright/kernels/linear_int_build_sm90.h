// What the host and the device agree on about linear layers with weights of 4 or 8 bits on Hopper:
// how a kernel is compiled and what it is given. Neutral.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled.
template <int kBits>
struct LinearIntBuild {
  int tokens;    // of a tile: columns of wgmma
  int ways;      // consumers that share the k of 64 features
  int resident;  // blocks of a multiprocessor

  static constexpr int kStageBytes = 128;                  // of a feature's weights
  static constexpr int kDepth = kStageBytes * 8 / kBits;   // values of k in a stage
  static constexpr int kChunk = 64;                        // of these, at least what a scale is for
  static constexpr int kConsumers = 2;                     // warpgroups
  static constexpr int kThreads = 128 * (1 + kConsumers);  // the last one copies

  TW_INLINE constexpr int features() const { return 64 * kConsumers / ways; }
  /// A stage's scales are brought by so many warps, and the next one's by others, where registers
  /// suffice: their way from memory is longer than a stage.
  TW_INLINE constexpr int scale_warps() const { return tokens > 64 ? 2 : 1; }
  TW_INLINE constexpr int scale_turns() const { return tokens > 64 ? 1 : 3; }
  /// Of a thread, as setmaxnreg takes them; all of them together have what the launch gives.
  TW_INLINE constexpr int producer_registers() const {
    return resident > 1 ? 64 : tokens > 64 ? 56 : 120;
  }
  TW_INLINE constexpr int consumer_registers() const {
    return resident > 1 ? 88 : tokens > 64 ? 224 : 192;
  }
  TW_INLINE constexpr int stages() const {
    constexpr int kAll = 233472, kKept = 2048, kBarriers = 16;  // bytes
    return (kAll / resident - kKept) / (stage_bytes() + kBarriers);
  }
  TW_INLINE constexpr int shared_bytes() const {
    constexpr int kAlignment = 1024, kBarriers = 16;
    const int bytes = stages() * (stage_bytes() + kBarriers);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  TW_INLINE constexpr int stage_bytes() const {
    return features() * (kStageBytes + kDepth / kChunk * 8) + tokens * kDepth * 2;
  }
};

inline constexpr int kLinearIntBuildCount = 8;
template <int kBits>
inline constexpr LinearIntBuild<kBits> kLinearIntBuilds[kLinearIntBuildCount] = {
    {16, 2, 2}, {16, 1, 1}, {32, 2, 2},  {32, 1, 1},
    {64, 2, 1}, {64, 1, 1}, {128, 2, 1}, {128, 1, 1}};

/// Of the kernels for few tokens, which read weights straight into registers: 64 bytes of a feature
/// are a span, which four lanes share. An eight of values of k is the unit of both operands.
template <int kBits>
struct LinearIntSpan {
  static constexpr int kBytes = 64, kLaneBytes = kBytes / 4;
  static constexpr int kDepth = kBytes * 8 / kBits;  // values of k
  static constexpr int kEight = 8, kEights = kDepth / kEight, kLaneEights = kEights / 4;
};

/// The kernel for a few tokens.
template <int kBits>
struct LinearIntFewBuild {
  int tokens, features;  // of a tile
  bool narrow;           // scales are for a part of a span

  static constexpr int kThreads = 256, kMostFeatures = 64;
  using Span = LinearIntSpan<kBits>;
  static constexpr int kUnit = 32;  // values of k that have one scale at least
};

/// Of 8 bits the kernel for many tokens does better wherever its chunks have a scale.
template <int kBits>
inline constexpr int kLinearIntFewBuildCount = kBits == 4 ? 4 : 2;
template <int kBits>
inline constexpr LinearIntFewBuild<kBits> kLinearIntFewBuilds[kLinearIntFewBuildCount<kBits>] = {
    {8, 32, true}, {16, 32, true}};
template <>
inline constexpr LinearIntFewBuild<4> kLinearIntFewBuilds<4>[kLinearIntFewBuildCount<4>] = {
    {8, 32, true}, {16, 32, true}, {8, 64, false}, {16, 16, false}};

/// The kernel for one to eight tokens whose scales are for a span or more.
template <int kBits>
struct LinearIntRowBuild {
  int threads;
  int slots;     // spans that a warp has on their way
  int resident;  // blocks of a multiprocessor

  static constexpr int kFeatures = 16;  // of a tile
  static constexpr int kMostTokens = 8;
  using Span = LinearIntSpan<kBits>;
  static constexpr int kTokenSpanBytes = Span::kDepth * 2;
  TW_INLINE constexpr int warps() const { return threads / 32; }
  /// Spans that a warp takes at once: the steps are as even as can be.
  TW_INLINE constexpr int warp_spans(int64_t k) const {
    return int(rounded_up(spans(k), steps(k) * warps()));
  }
  /// Of a token in a warp's part of k. Two tokens' spans lie in different banks.
  TW_INLINE constexpr int64_t token_bytes(int64_t k) const {
    return steps(k) * warp_spans(k) * kTokenSpanBytes + 64;
  }
  TW_INLINE constexpr int64_t shared_bytes(int64_t tokens, int64_t k) const {
    return warps() * tokens * token_bytes(k);
  }
  /// So that `resident` blocks fit beside each other.
  static constexpr int kMostSharedBytes = 68 * 1024;

 private:
  TW_INLINE static constexpr int64_t rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
  TW_INLINE static constexpr int64_t spans(int64_t k) { return rounded_up(k, Span::kDepth); }
  TW_INLINE constexpr int64_t steps(int64_t k) const {
    return rounded_up(spans(k), int64_t{warps()} * slots);
  }
};

template <int kBits>
inline constexpr LinearIntRowBuild<kBits> kLinearIntRowBuild = {256, 4, 3};

template <class T>
struct LinearIntArguments {
  tile::cuda::TensorMap x;       // [1, m, k], boxes of a tile's tokens and 64 values of k
  tile::cuda::TensorMap weight;  // [1, n, bytes], boxes of a tile's features and 128 bytes
  View<const T, 2> scale;        // [n, k / group]
  View<const int8_t, 2> zero;    // the same, or no data
  View<const T, 1> bias;         // [n], or no data
  View<T, 2> out;                // [m, n]
  const T* tokens;               // x
  int64_t token_stride;
  const int8_t* weight_data;
  int64_t weight_stride;  // bytes from a feature to the next
  int depth;              // k
  int stages;             // blocks of k
  int groups;
  int chunks_per_group, units_per_group, spans_per_group;  // that have the same scale
  int token_bytes, warp_spans;
  int asking_blocks, asked_bytes;  // that ask for weights ahead; of each warp and feature
  int token_tiles, splits;         // splits: blocks of a cluster, which share the k of one tile
  bool stores_words;               // four features of out are eight aligned bytes
};

}  // namespace tw::kernels

// What the host and the device agree on about the linear layer with 4-bit weights on Hopper: how a
// kernel is compiled and what it is given. Neutral.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled.
struct LinearInt4Build {
  int tokens;  // of a tile: columns of wgmma
  int ways;    // consumers that share the k of 64 features

  static constexpr int kDepth = 256;  // values of k in a stage: 128 bytes of weights
  static constexpr int kChunk = 64;   // of these, at least what a scale is for

  TW_INLINE constexpr int features() const { return 64 * kConsumers / ways; }
  static constexpr int kScaleWarps = 2;
  static constexpr int kConsumers = 2;                     // warpgroups
  static constexpr int kThreads = 128 * (1 + kConsumers);  // the last one copies
  TW_INLINE constexpr int stages() const {
    constexpr int kMost = 232448 - 1024, kBarriers = 16;  // bytes
    return kMost / (stage_bytes() + kBarriers);
  }
  TW_INLINE constexpr int shared_bytes() const {
    constexpr int kAlignment = 1024, kBarriers = 16;
    const int bytes = stages() * (stage_bytes() + kBarriers);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  TW_INLINE constexpr int stage_bytes() const {
    return features() * (128 + kDepth / kChunk * 8) + tokens * kDepth * 2;
  }
};

inline constexpr LinearInt4Build kLinearInt4Builds[] = {{64, 2}, {64, 1}, {128, 2}, {128, 1}};
inline constexpr int kLinearInt4BuildCount =
    int(sizeof(kLinearInt4Builds) / sizeof(kLinearInt4Builds[0]));

/// The kernel for a few tokens.
struct LinearInt4FewBuild {
  int tokens, features;  // of a tile
  bool narrow;           // scales are for 32 or 64 values of k, not for 128

  static constexpr int kThreads = 256, kMostFeatures = 64;
  static constexpr int kSpan = 128;  // values of k that a warp takes at once
  static constexpr int kUnit = 32;   // that have one scale at least
};

inline constexpr LinearInt4FewBuild kLinearInt4FewBuilds[] = {{8, 64, false},  {8, 16, false},
                                                              {8, 32, true},   {16, 64, false},
                                                              {16, 16, false}, {16, 32, true}};
inline constexpr int kLinearInt4FewBuildCount =
    int(sizeof(kLinearInt4FewBuilds) / sizeof(kLinearInt4FewBuilds[0]));

/// The kernel for one to eight tokens whose scales are for 128 values of k or more.
struct LinearInt4RowBuild {
  int threads;
  int slots;     // spans that a warp has on their way
  int resident;  // blocks of a multiprocessor

  static constexpr int kFeatures = 16;  // of a tile
  static constexpr int kMostTokens = 8, kSpan = 128;
  static constexpr int kSpanBytes = kSpan * 2;
  TW_INLINE constexpr int warps() const { return threads / 32; }
  /// Spans that a warp takes at once: the steps are as even as can be.
  TW_INLINE constexpr int warp_spans(int64_t k) const {
    return int(rounded_up(spans(k), steps(k) * warps()));
  }
  /// Of a token in a warp's part of k. Two tokens' spans lie in different banks.
  TW_INLINE constexpr int64_t token_bytes(int64_t k) const {
    return steps(k) * warp_spans(k) * kSpanBytes + 64;
  }
  TW_INLINE constexpr int64_t shared_bytes(int64_t tokens, int64_t k) const {
    return warps() * tokens * token_bytes(k);
  }
  /// So that `resident` blocks fit beside each other.
  static constexpr int kMostSharedBytes = 68 * 1024;

 private:
  TW_INLINE static constexpr int64_t rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
  TW_INLINE static constexpr int64_t spans(int64_t k) { return rounded_up(k, kSpan); }
  TW_INLINE constexpr int64_t steps(int64_t k) const {
    return rounded_up(spans(k), int64_t{warps()} * slots);
  }
};

inline constexpr LinearInt4RowBuild kLinearInt4RowBuild = {256, 4, 3};

template <class T>
struct LinearInt4Arguments {
  tile::cuda::TensorMap x;       // [1, m, k], boxes of a tile's tokens and 64 values of k
  tile::cuda::TensorMap weight;  // [1, n, bytes], boxes of a tile's features and 128 bytes
  View<const T, 2> scale;        // [n, k / group]
  View<const int8_t, 2> zero;    // the same, or no data: 8
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

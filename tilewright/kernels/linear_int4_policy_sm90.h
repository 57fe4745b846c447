// Which build of the linear layer with 4-bit weights on Hopper to run, and into how many parts its
// k is split. Neutral host code: sizes in, choice out. What decides was measured on an H100 SXM
// (docs/notes/gemm_sm90.md).
#pragma once

#include <algorithm>

#include "tilewright/kernels/linear_int4_build_sm90.h"

namespace tw::kernels {

struct LinearInt4Size {
  int64_t m, n, k;
  int64_t group;            // values of k that have one scale
  bool is_regular = false;  // operands lie as the kernel for one to eight tokens wants them
};

enum class LinearInt4Kernel { kRow, kFew, kMany };

struct LinearInt4Choice {
  LinearInt4Kernel kernel = LinearInt4Kernel::kMany;
  int build = 0, splits = 1;  // of kFew and kMany
  int64_t blocks = 0;         // of kRow, which share the tiles
};

namespace linear_int4_policy {

constexpr int64_t blocks(int64_t n, int64_t step) {
  return (n + step - 1) / step;
}
/// Two blocks share k where tiles leave half of the multiprocessors idle; more meet for too long.
constexpr int splits(int64_t tiles, int64_t parts_of_k, int multiprocessors) {
  return 2 * tiles <= multiprocessors && parts_of_k >= 4 ? 2 : 1;
}

constexpr int few_build(int tokens, int features) {
  for (int i = 0; i < kLinearInt4FewBuildCount; ++i)
    if (kLinearInt4FewBuilds[i].tokens == tokens && kLinearInt4FewBuilds[i].features == features)
      return i;
  return -1;
}
constexpr int build(int tokens, int ways) {
  for (int i = 0; i < kLinearInt4BuildCount; ++i)
    if (kLinearInt4Builds[i].tokens == tokens && kLinearInt4Builds[i].ways == ways) return i;
  return -1;
}

/// The few tokens of which every block may have its part of k in shared memory.
constexpr bool is_row(const LinearInt4Size& size) {
  constexpr int64_t kMost = 4;  // tokens; the kernel has room for eight
  constexpr const LinearInt4RowBuild& kBuild = kLinearInt4RowBuild;
  return size.is_regular && size.m <= kMost && size.group % LinearInt4RowBuild::kSpan == 0 &&
         size.k / LinearInt4RowBuild::kSpan >= kBuild.warps() &&
         kBuild.shared_bytes(size.m, size.k) <= LinearInt4RowBuild::kMostSharedBytes;
}

}  // namespace linear_int4_policy

/// For sizes > 0.
constexpr LinearInt4Choice choose_linear_int4_sm90(const LinearInt4Size& size,
                                                   int multiprocessors) {
  using namespace linear_int4_policy;
  constexpr int64_t kFewest = 8, kFew = 16;  // tokens
  LinearInt4Choice out;
  if (is_row(size)) {
    out.kernel = LinearInt4Kernel::kRow;
    out.blocks = blocks(size.n, LinearInt4RowBuild::kFeatures);
    // A block brings the tokens once: several of them for as many tiles as it has time for.
    if (size.m > 1)
      out.blocks = std::min<int64_t>(out.blocks, multiprocessors * kLinearInt4RowBuild.resident);
    return out;
  }
  // Two tiles of tokens read the weights twice: that pays where multiprocessors would idle.
  const bool idles = 2 * blocks(size.n, LinearInt4FewBuild::kMostFeatures) <= multiprocessors;
  if (size.m <= (idles ? 2 * kFew : kFew) || size.group % LinearInt4Build::kChunk != 0) {
    out.kernel = LinearInt4Kernel::kFew;
    const bool narrow = size.group % LinearInt4FewBuild::kSpan != 0;
    const int tokens = size.m <= kFewest ? 8 : int{kFew};
    const auto tiles = [&](int64_t features) {
      return blocks(size.m, tokens) * blocks(size.n, features);
    };
    const bool few_tiles = 2 * tiles(LinearInt4FewBuild::kMostFeatures) <= multiprocessors;
    const int features = narrow ? 32 : few_tiles ? 16 : LinearInt4FewBuild::kMostFeatures;
    out.build = few_build(tokens, features);
    if (narrow)
      out.splits =
          splits(tiles(features), blocks(size.k, LinearInt4FewBuild::kSpan), multiprocessors);
    return out;
  }
  // Blocks draw tokens from L2 at its limit: as many features to a block as leave most of the
  // multiprocessors something to do.
  for (const int ways : {1, 2}) {
    out.build = build(size.m <= 64 ? 64 : 128, ways);
    const LinearInt4Build& of = kLinearInt4Builds[out.build];
    const int64_t tiles = blocks(size.m, of.tokens) * blocks(size.n, of.features());
    out.splits = splits(tiles, blocks(size.k, LinearInt4Build::kDepth), multiprocessors);
    // Of 128 tokens, two ways do better than halves of k.
    const int64_t parts = of.tokens > 64 ? tiles : tiles * out.splits;
    if (4 * parts >= 3 * multiprocessors) break;
  }
  return out;
}

}  // namespace tw::kernels

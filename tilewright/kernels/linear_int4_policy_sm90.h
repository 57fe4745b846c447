// Which build of the linear layer with 4-bit weights on Hopper to run, and into how many parts its
// k is split. Neutral host code: sizes in, choice out. What decides was measured on an H100 SXM
// (docs/notes/gemm_sm90.md).
#pragma once

#include "tilewright/kernels/linear_int4_build_sm90.h"

namespace tw::kernels {

struct LinearInt4Size {
  int64_t m, n, k;
  int64_t group;  // values of k that have one scale
};

struct LinearInt4Choice {
  bool few = false;  // of which builds
  int build = 0, splits = 1;
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

}  // namespace linear_int4_policy

/// For sizes > 0.
constexpr LinearInt4Choice choose_linear_int4_sm90(const LinearInt4Size& size,
                                                   int multiprocessors) {
  using namespace linear_int4_policy;
  constexpr int64_t kFewest = 8, kFew = 16;  // tokens
  LinearInt4Choice out;
  // Two tiles of tokens read the weights twice: that pays where multiprocessors would idle.
  const bool idles = 2 * blocks(size.n, LinearInt4FewBuild::kMostFeatures) <= multiprocessors;
  if (size.m <= (idles ? 2 * kFew : kFew) || size.group % LinearInt4Build::kChunk != 0) {
    out.few = true;
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
  const int64_t wide = blocks(size.m, 128) * blocks(size.n, 128);  // tiles of two consumers' own
  const bool fills = 4 * wide >= 3 * multiprocessors;
  out.build = size.m <= 64 ? build(64, 2) : fills ? build(128, 1) : build(128, 2);
  const LinearInt4Build& of = kLinearInt4Builds[out.build];
  const int64_t tiles = blocks(size.m, of.tokens) * blocks(size.n, of.features());
  out.splits = splits(tiles, blocks(size.k, LinearInt4Build::kDepth), multiprocessors);
  return out;
}

}  // namespace tw::kernels

// Which build of attention on Hopper to run, and how its work is cut. Neutral host code: sizes in,
// choice out. Constants are measurements on an H100 SXM (docs/notes/attention_sm90.md).
#pragma once

#include "tilewright/kernels/attention_build_sm90.h"

namespace tw::kernels {

inline constexpr AttentionBuild kAttentionBuilds[] = {
    {.dims = 64, .value_dims = 64, .consumers = 1, .keys = 128, .stages = 4, .turns = false},
    {.dims = 64, .value_dims = 64, .consumers = 2, .keys = 128, .stages = 4, .turns = true},
    {.dims = 64, .value_dims = 64, .consumers = 3, .keys = 128, .stages = 3, .turns = true},
    {.dims = 96, .value_dims = 96, .consumers = 2, .keys = 128, .stages = 2, .turns = true},
    {.dims = 96, .value_dims = 96, .consumers = 2, .keys = 176, .stages = 2, .turns = false},
    {.dims = 128, .value_dims = 128, .consumers = 1, .keys = 128, .stages = 3, .turns = false},
    {.dims = 128, .value_dims = 128, .consumers = 2, .keys = 128, .stages = 2, .turns = true},
    {.dims = 128, .value_dims = 128, .consumers = 2, .keys = 176, .stages = 2, .turns = false},
    {.dims = 192, .value_dims = 128, .consumers = 2, .keys = 128, .stages = 2, .turns = true},
    {.dims = 192, .value_dims = 192, .consumers = 2, .keys = 112, .stages = 2, .turns = false},
    {.dims = 256, .value_dims = 256, .consumers = 1, .keys = 64, .stages = 3, .turns = false},
    {.dims = 256, .value_dims = 256, .consumers = 2, .keys = 64, .stages = 2, .turns = false},
    {.dims = 256, .value_dims = 256, .consumers = 2, .keys = 80, .stages = 2, .turns = false}};
inline constexpr int kAttentionBuildCount =
    int(sizeof(kAttentionBuilds) / sizeof(kAttentionBuilds[0]));

/// Those whose keys and values have 8 bits, for many queries and for few: first the ones that widen
/// them, then the ones whose queries lie across, by dims and queries.
inline constexpr AttentionBuild kAttentionNarrowBuilds[] = {
    {.dims = 64, .value_dims = 64, .consumers = 1, .keys = 128, .stages = 3, .narrow_stages = 3},
    {.dims = 128, .value_dims = 128, .consumers = 1, .keys = 128, .stages = 2, .narrow_stages = 2},
    {.dims = 256, .value_dims = 256, .consumers = 1, .keys = 64, .stages = 2, .narrow_stages = 2},
    {.dims = 64, .value_dims = 64, .consumers = 1, .keys = 128, .stages = 6, .across = 8},
    {.dims = 64, .value_dims = 64, .consumers = 1, .keys = 128, .stages = 6, .across = 16},
    {.dims = 128, .value_dims = 128, .consumers = 1, .keys = 128, .stages = 5, .across = 8},
    {.dims = 128, .value_dims = 128, .consumers = 1, .keys = 128, .stages = 4, .across = 16},
    {.dims = 256, .value_dims = 256, .consumers = 1, .keys = 128, .stages = 2, .across = 8}};
inline constexpr int kAttentionNarrowBuildCount =
    int(sizeof(kAttentionNarrowBuilds) / sizeof(kAttentionNarrowBuilds[0]));

/// Those of queries, keys and values of 8 bits, few queries or many.
inline constexpr AttentionBuild kAttentionFp8Builds[] = {
    {.dims = 64,
     .value_dims = 64,
     .consumers = 2,
     .keys = 128,
     .stages = 3,
     .turns = true,
     .transposers = 4},
    {.dims = 64,
     .value_dims = 64,
     .consumers = 3,
     .keys = 128,
     .stages = 2,
     .turns = true,
     .transposers = 1},
    {.dims = 128,
     .value_dims = 128,
     .consumers = 2,
     .keys = 128,
     .stages = 3,
     .turns = true,
     .transposers = 4},
    {.dims = 256, .value_dims = 256, .consumers = 2, .keys = 96, .stages = 2, .transposers = 1}};
inline constexpr int kAttentionFp8BuildCount =
    int(sizeof(kAttentionFp8Builds) / sizeof(kAttentionFp8Builds[0]));

/// Of queries and keys of so many bytes. `masked`: as it is compiled for a mask_mod.
constexpr AttentionBuild attention_build(int query_bytes, int key_bytes, int index,
                                         bool masked = false) {
  AttentionBuild out = query_bytes == 1 ? kAttentionFp8Builds[index]
                       : key_bytes == 1 ? kAttentionNarrowBuilds[index]
                                        : kAttentionBuilds[index];
  out.skips = masked;
  return out;
}

/// What the choice depends on.
struct AttentionSize {
  int64_t dims, value_dims;
  int64_t sequences;
  int64_t queries;  // of a sequence; on average, where they vary
  int64_t keys;     // that a query sees at most; of a typical sequence
  int64_t group;    // heads that share keys
  int64_t kv_heads;
  int64_t page_keys;    // 0: no pages
  bool masked;          // causal or a window: blocks of keys at the ends are cut
  bool varies;          // the number of queries, among sequences
  bool biased = false;  // something is added to scores
  bool narrow = false;  // keys and values have 8 bits
  bool fp8 = false;     // and queries
};

struct AttentionChoice {
  int build = -1;  // of those of its types, above; -1: none takes it
  int pack = 1;    // heads in the rows of a tile
  // Of AttentionOrder, where blocks of threads take parts of tiles.
  AttentionTeam team;
  int step = 0, least = 1, slack = 0;
};

/// Whether a build has the registers that changing scores takes.
constexpr bool can_change_scores(const AttentionBuild& build) {
  constexpr int kNeeded = 44;
  return build.spare_registers() >= kNeeded;
}

namespace attention_policy {

/// The most heads that fit evenly into the rows of a tile.
constexpr int64_t most_packed(int64_t group, int64_t rows = 64) {
  for (int64_t i = group < rows ? group : rows; i > 1; --i)
    if (group % i == 0) return i;
  return 1;
}
constexpr bool has_dims(const AttentionBuild& build, const auto& wanted) {
  return build.dims >= wanted.dims && build.value_dims >= wanted.value_dims;
}
/// Whether blocks consist of pages, of multiples of `least` keys, or pages of blocks.
constexpr bool fits_pages(int64_t block_keys, int64_t page_keys,
                          int64_t least = kAttentionLeastBox) {
  return page_keys == 0 || page_keys % block_keys == 0 ||
         (block_keys % page_keys == 0 && page_keys % least == 0);
}
/// The greatest divisor of `count` up to `most` that leaves few multiprocessors without a team.
constexpr int greatest_team(int64_t count, int most, int multiprocessors) {
  constexpr double kEnough = 0.95;  // of the multiprocessors
  for (int i = most; i > 1; --i)
    if (count % i == 0 && multiprocessors / i * i >= kEnough * multiprocessors) return i;
  return 1;
}

/// Tiles of few queries and blocks of few keys waste less at the ends of a sequence, large ones
/// run at a higher rate: from how many keys on a build is the better one.
constexpr int64_t least_keys(const AttentionBuild& build, bool masked) {
  if (build.consumers == 3) return masked ? 6144 : 1536;
  if (build.keys > 128) return 12288;
  if (build.keys == 80) return masked ? 1536 : 768;
  return 0;
}

}  // namespace attention_policy

/// The first build that suffices.
template <int kCount>
constexpr int first_build(const AttentionBuild (&builds)[kCount], const AttentionSize& size) {
  for (int i = 0; i < kCount; ++i)
    if (!builds[i].crosses() && attention_policy::has_dims(builds[i], size) &&
        attention_policy::fits_pages(builds[i].keys, size.page_keys))
      return i;
  return -1;
}
/// Of the builds for the fewest dims that suffice, the last that is good for the sizes.
template <int kCount, class Fits>
constexpr int last_good(const AttentionBuild (&builds)[kCount], const AttentionSize& size,
                        Fits&& fits) {
  using namespace attention_policy;
  int out = -1;
  for (int i = 0; i < kCount; ++i) {
    const AttentionBuild& build = builds[i];
    if (!has_dims(build, size) || !fits_pages(build.keys, size.page_keys)) continue;
    if (size.keys < least_keys(build, size.masked) || !fits(build)) continue;
    if (out >= 0 && !has_dims(builds[out], build)) break;
    out = i;
  }
  return out;
}
/// The first whose queries lie across, if they are few: of the fewest dims, the first that has them
/// in one tile, or the widest.
constexpr int first_across(const AttentionSize& size) {
  if (size.biased) return -1;
  constexpr int64_t kMostTiles = 2;  // of a sequence and head of keys
  const int64_t rows = size.queries * size.group;
  int out = -1;
  for (int i = 0; i < kAttentionNarrowBuildCount; ++i) {
    const AttentionBuild& build = kAttentionNarrowBuilds[i];
    if (!build.crosses() || !attention_policy::has_dims(build, size)) continue;
    if (!attention_policy::fits_pages(build.keys, size.page_keys)) continue;
    if (out >= 0 && !attention_policy::has_dims(kAttentionNarrowBuilds[out], build)) break;
    if (rows <= kMostTiles * build.across) out = i;
    if (rows <= build.across) break;
  }
  return out;
}

constexpr AttentionChoice choose_attention_sm90(const AttentionSize& size, int multiprocessors) {
  using namespace attention_policy;
  constexpr int64_t kRows = 64;
  AttentionChoice out;
  const bool few = size.narrow || size.queries * size.group <= kRows;
  if (size.queries < kRows) out.pack = int(most_packed(size.group));
  if (size.fp8) {
    out.build = last_good(kAttentionFp8Builds, size, [](const AttentionBuild&) { return true; });
    return out;
  }
  if (size.narrow) {
    out.build = first_across(size);
    if (out.build >= 0)
      out.pack = int(most_packed(size.group, kAttentionNarrowBuilds[out.build].across));
    else
      out.build = first_build(kAttentionNarrowBuilds, size);
  } else {
    out.build = last_good(kAttentionBuilds, size, [&](const AttentionBuild& build) {
      return (build.consumers == 1) == few && (!size.biased || can_change_scores(build));
    });
  }
  if (out.build < 0 || !few) return out;
  constexpr int kMostTeam = 8;
  out.step = 1, out.least = 1;
  out.team.heads = greatest_team(size.kv_heads * size.group / out.pack, kMostTeam, multiprocessors);
  return out;
}

}  // namespace tw::kernels

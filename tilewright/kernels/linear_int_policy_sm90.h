// Which build of a linear layer with weights of 4 or 8 bits on Hopper to run, and into how many
// parts its k is split. Neutral host code: sizes in, choice out. What decides was measured on an
// H100 SXM (docs/notes/gemm_sm90.md).
#pragma once

#include <algorithm>

#include "tilewright/kernels/linear_int_build_sm90.h"

namespace tw::kernels {

struct LinearIntSize {
  int64_t m, n, k;
  int64_t group;            // values of k that have one scale
  bool is_regular = false;  // operands lie as the kernel for one to eight tokens wants them
};

enum class LinearIntKernel { kRow, kFew, kMany };

struct LinearIntChoice {
  LinearIntKernel kernel = LinearIntKernel::kMany;
  int build = 0, splits = 1;  // of kFew and kMany
  int64_t blocks = 0;         // of kRow, which share the tiles
};

namespace linear_int_policy {

constexpr int64_t blocks(int64_t n, int64_t step) {
  return (n + step - 1) / step;
}
/// Blocks share k where tiles leave half of the multiprocessors idle; more than that meet for too
/// long.
constexpr int splits(int64_t tiles, int64_t parts_of_k, int multiprocessors, int most) {
  int out = 1;
  while (2 * out <= most && 2 * out * tiles <= multiprocessors && parts_of_k >= 4 * out) out *= 2;
  return out;
}

template <int kBits>
constexpr int few_build(int tokens, int features) {
  constexpr auto& kBuilds = kLinearIntFewBuilds<kBits>;
  for (int i = 0; i < kLinearIntFewBuildCount<kBits>; ++i)
    if (kBuilds[i].tokens == tokens && kBuilds[i].features == features) return i;
  return -1;
}
template <int kBits>
constexpr int build(int tokens, int ways) {
  constexpr auto& kBuilds = kLinearIntBuilds<kBits>;
  for (int i = 0; i < kLinearIntBuildCount; ++i)
    if (kBuilds[i].tokens == tokens && kBuilds[i].ways == ways) return i;
  return -1;
}

/// The few tokens of which every block may have its part of k in shared memory.
template <int kBits>
constexpr bool is_row(const LinearIntSize& size) {
  constexpr int64_t kMost = 4;  // tokens; the kernel has room for eight
  constexpr LinearIntRowBuild kBuild = kLinearIntRowBuild<kBits>;
  constexpr int64_t kSpan = LinearIntSpan<kBits>::kDepth;
  return size.is_regular && size.m <= kMost && size.group % kSpan == 0 &&
         size.k / kSpan >= kBuild.warps() &&
         kBuild.shared_bytes(size.m, size.k) <= kBuild.kMostSharedBytes;
}

/// Whether the widest tiles for few tokens leave half of the multiprocessors idle.
template <int kBits>
constexpr bool idles(const LinearIntSize& size, int multiprocessors) {
  return 2 * blocks(size.n, LinearIntFewBuild<kBits>::kMostFeatures) <= multiprocessors;
}

/// The kernel for few tokens: of groups that are no whole spans, and of 4 bits up to a few more.
template <int kBits>
constexpr bool is_few(const LinearIntSize& size, int multiprocessors) {
  constexpr int64_t kSpan = LinearIntSpan<kBits>::kDepth;
  if (size.group % LinearIntBuild<kBits>::kChunk != 0) return true;
  if (kBits == 8) return false;
  const bool narrow = size.group % kSpan != 0;
  return size.m <= (narrow || idles<kBits>(size, multiprocessors) ? 16 : 8);
}

template <int kBits>
constexpr void choose_few(const LinearIntSize& size, int multiprocessors, LinearIntChoice& out) {
  constexpr int64_t kSpan = LinearIntSpan<kBits>::kDepth;
  out.kernel = LinearIntKernel::kFew;
  if (size.group % kSpan == 0) {
    constexpr int kMost = LinearIntFewBuild<kBits>::kMostFeatures;
    out.build =
        idles<kBits>(size, multiprocessors) ? few_build<kBits>(16, 16) : few_build<kBits>(8, kMost);
    return;
  }
  constexpr int kFeatures = 32;
  const int tokens = size.m <= 8 ? 8 : 16;
  const int64_t tiles = blocks(size.m, tokens) * blocks(size.n, kFeatures);
  out.build = few_build<kBits>(tokens, kFeatures);
  out.splits = splits(tiles, blocks(size.k, kSpan), multiprocessors, 2);
}

/// Blocks draw tokens from L2 at its limit: as many features to a block as leave most of the
/// multiprocessors something to do.
template <int kBits>
constexpr void choose_many(const LinearIntSize& size, int multiprocessors, LinearIntChoice& out) {
  out.kernel = LinearIntKernel::kMany;
  const int tokens = size.m <= 16 ? 16 : size.m <= 32 ? 32 : size.m <= 64 ? 64 : 128;
  for (const int ways : {1, 2}) {
    out.build = build<kBits>(tokens, ways);
    const LinearIntBuild<kBits>& of = kLinearIntBuilds<kBits>[out.build];
    const int64_t tiles = blocks(size.m, tokens) * blocks(size.n, of.features());
    out.splits = splits(tiles, blocks(size.k, of.kDepth), multiprocessors, 2 * ways);
    // Of 128 tokens, two ways do better than halves of k.
    const int64_t parts = tokens > 64 ? tiles : tiles * out.splits;
    if (4 * parts >= 3 * multiprocessors) break;
  }
}

}  // namespace linear_int_policy

/// For sizes > 0.
template <int kBits>
constexpr LinearIntChoice choose_linear_int_sm90(const LinearIntSize& size, int multiprocessors) {
  using namespace linear_int_policy;
  constexpr LinearIntRowBuild kRow = kLinearIntRowBuild<kBits>;
  LinearIntChoice out;
  if (is_row<kBits>(size)) {
    out.kernel = LinearIntKernel::kRow;
    out.blocks = blocks(size.n, kRow.kFeatures);
    // A block brings the tokens once: several of them for as many tiles as it has time for. One
    // token where blocks have few tiles each: the next tile's weights are on their way already,
    // while a block that waits for a place begins with nothing.
    const int64_t places = int64_t{multiprocessors} * kRow.resident;
    if (size.m > 1 || out.blocks < 3 * places) out.blocks = std::min(out.blocks, places);
  } else if (is_few<kBits>(size, multiprocessors)) {
    choose_few<kBits>(size, multiprocessors, out);
  } else {
    choose_many<kBits>(size, multiprocessors, out);
  }
  return out;
}

}  // namespace tw::kernels

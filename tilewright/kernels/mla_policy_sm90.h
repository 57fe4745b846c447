// Which build of multi-head latent attention on Hopper to run, and how its work is cut. Neutral
// host code: sizes in, choice out.
#pragma once

#include "tilewright/kernels/attention_policy_sm90.h"
#include "tilewright/kernels/mla_build_sm90.h"

namespace tw::kernels {

namespace mla_policy {

/// What splits cost, in blocks of keys: rounds of tiles, each with a start and an end, and reading
/// and writing what is to be added up.
constexpr double cost(int64_t tiles, int64_t blocks, int64_t splits, int64_t values,
                      int multiprocessors) {
  constexpr double kEnds = 2, kSecondKernel = 2;
  constexpr double kBytesOfBlock = 5e6;  // that memory moves in a block's time
  const int64_t rounds = (tiles * splits + multiprocessors - 1) / multiprocessors;
  const double products = double(rounds) * (double((blocks + splits - 1) / splits) + kEnds);
  if (splits == 1) return products;
  const double bytes = double(tiles * splits * MlaBuild::kRows * values) * 2 * sizeof(float);
  return products + kSecondKernel + bytes / kBytesOfBlock;
}

}  // namespace mla_policy

/// `size.dims` are the latent ones.
constexpr AttentionChoice choose_mla_sm90(const AttentionSize& size, int64_t rotated_dims,
                                          int multiprocessors) {
  AttentionChoice out;
  if (rotated_dims > MlaBuild::kColumns ||
      !attention_policy::fits_pages(MlaBuild::kKeys, size.page_keys))
    return out;
  for (int i = kMlaBuildCount; i-- > 0;)
    if (kMlaBuilds[i].values >= size.dims) out.build = i;
  if (out.build < 0) return out;
  if (size.queries < MlaBuild::kRows) out.pack = int(attention_policy::most_packed(size.group));
  const int64_t of_tile = MlaBuild::kRows / out.pack;  // queries
  const int64_t tiles = (size.queries + of_tile - 1) / of_tile * size.sequences * size.kv_heads *
                        size.group / out.pack;
  const int64_t blocks = (size.keys + MlaBuild::kKeys - 1) / MlaBuild::kKeys;
  const auto cost = [&](int64_t splits) {
    return mla_policy::cost(tiles, blocks, splits, kMlaBuilds[out.build].values, multiprocessors);
  };
  for (int64_t i = 2; i <= blocks / 2 && i <= kAttentionMostSplits; ++i)
    if (cost(i) < cost(out.splits)) out.splits = int(i);
  return out;
}

}  // namespace tw::kernels

// Which build of multi-head latent attention on Hopper to run, and how its work is cut. Neutral
// host code: sizes in, choice out.
#pragma once

#include "tilewright/kernels/attention_policy_sm90.h"
#include "tilewright/kernels/mla_build_sm90.h"

namespace tw::kernels {

/// `size.dims` are the latent ones.
constexpr AttentionChoice choose_mla_sm90(const AttentionSize& size, int64_t rotated_dims,
                                          int multiprocessors) {
  AttentionChoice out;
  constexpr int kLeastPage = 1;  // keys of less than a box are gathered
  if (rotated_dims > MlaBuild::kColumns ||
      !attention_policy::fits_pages(MlaBuild::kKeys, size.page_keys, kLeastPage))
    return out;
  for (int i = kMlaBuildCount; i-- > 0;)
    if (kMlaBuilds[i].values >= size.dims) out.build = i;
  if (out.build < 0) return out;
  if (size.queries < MlaBuild::kRows) out.pack = int(attention_policy::most_packed(size.group));
  // Blocks go in pairs. A tile in parts costs its sums in float32, and reading them.
  out.step = 2, out.least = 2, out.slack = 2;
  constexpr int kMostTeam = 4;
  const int64_t of_tile = MlaBuild::kRows / out.pack;  // queries
  const int64_t heads = size.kv_heads * size.group / out.pack;
  using attention_policy::greatest_team;
  out.team.heads = greatest_team(heads, kMostTeam, multiprocessors);
  if (out.team.heads == heads && !size.varies)
    out.team.tiles = greatest_team((size.queries + of_tile - 1) / of_tile,
                                   kMostTeam / out.team.heads, multiprocessors);
  return out;
}

}  // namespace tw::kernels

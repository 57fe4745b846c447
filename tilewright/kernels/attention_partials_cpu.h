// What a task of split-KV attention leaves in the workspace for the task that merges.
#pragma once

#include "tilewright/kernels/attention_blocks.h"

namespace tw::kernels::attention_detail {

/// The result of one block for one row: the maximum and the sum of its weights.
struct BlockStats {
  float m, l;
};

TW_INLINE constexpr int64_t round_up(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// Results of blocks that another task will merge: per row and block of keys, its statistics and
/// its weighted values.
struct Partials {
  BlockStats* stats = nullptr;
  float* values = nullptr;
  int64_t stride = 0;      // floats of values per slot
  int64_t first_slot = 0;  // of the sequence
  int64_t blocks = 0;      // of the sequence
  int64_t q_heads = 0;

  TW_INLINE static int64_t stride_of(int64_t value_dims) { return round_up(value_dims, 16); }
  TW_INLINE static int64_t stats_bytes(int64_t slots) {
    return round_up(slots, 8) * int64_t{sizeof(BlockStats)};
  }
  TW_INLINE static int64_t bytes(int64_t slots, int64_t value_dims) {
    return stats_bytes(slots) + slots * stride_of(value_dims) * int64_t{sizeof(float)};
  }
  TW_INLINE static Partials in(char* workspace, int64_t slots, const AttentionShape& shape,
                               int64_t sequence_blocks) {
    Partials out;
    out.stats = reinterpret_cast<BlockStats*>(workspace);
    out.values = reinterpret_cast<float*>(workspace + stats_bytes(slots));
    out.stride = stride_of(shape.value_dims);
    out.blocks = sequence_blocks;
    out.q_heads = shape.q_heads;
    return out;
  }
  TW_INLINE int64_t slot(const TileRows& who, int64_t row, int64_t block) const {
    return first_slot + (who.query(row) * q_heads + who.q_head(row)) * blocks + block;
  }
};

/// Of a block that no row sees, if it is to be left.
TW_INLINE void leave_nothing(const Partials* to, const TileRows& who, int64_t block) {
  for (int64_t r = 0; to != nullptr && r < who.rows; ++r)
    to->stats[to->slot(who, r, block)] = {-__builtin_inff(), 0};
}

}  // namespace tw::kernels::attention_detail

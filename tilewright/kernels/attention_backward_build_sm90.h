// What the host and the device agree on about attention's backward on Hopper: how a kernel is
// compiled, what it is given, and how the work is dealt. Neutral.
#pragma once

#include "tilewright/kernels/attention_build_sm90.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled: two consumer warpgroups with 64 keys each, and
/// blocks of queries.
struct AttentionBackwardBuild {
  static constexpr int kConsumers = 2, kThreads = 128 * (1 + kConsumers), kStages = 2;
  static constexpr int kKeys = 64 * kConsumers;

  int dims;     // of queries, keys and values, 64 or 128; what is missing reads as zero
  int queries;  // of a block

  TW_INLINE constexpr int key_bytes() const { return kKeys * dims * 2; }
  TW_INLINE constexpr int query_bytes() const { return queries * dims * 2; }
  TW_INLINE constexpr int slope_bytes() const { return kKeys * queries * 2; }
  TW_INLINE constexpr int sum_count() const { return queries * dims; }  // of queries' gradients
  TW_INLINE constexpr int row_bytes() const { return 2 * queries * int(sizeof(float)); }
  TW_INLINE constexpr int shared_bytes() const {
    constexpr int kAlignment = 1024;  // the barriers fit into what it rounds up to
    const int used = 2 * key_bytes() + kStages * (2 * query_bytes() + row_bytes()) +
                     2 * slope_bytes() + 2 * sum_count() * int(sizeof(float));
    return used + kAlignment;
  }
};

inline constexpr AttentionBackwardBuild kAttentionBackwardBuilds[] = {{.dims = 64, .queries = 64},
                                                                      {.dims = 128, .queries = 64}};
inline constexpr int kAttentionBackwardBuildCount = 2;
inline constexpr int kMostAttentionRing = 256;

/// Blocks of threads of a ring share a head of keys: they take its blocks of keys in turn.
struct AttentionRing {
  int size, count;  // blocks of a ring, rings
};

/// The ring that leaves the fewest rounds, in each of which a member takes `fold` blocks of keys;
/// of equals the largest, since what its members read and add to at the same time stays in L2.
TW_INLINE constexpr AttentionRing choose_attention_ring(int64_t heads, int64_t key_blocks, int fold,
                                                        int multiprocessors) {
  AttentionRing best{1, 1};
  int64_t fewest = -1;
  int64_t most = (key_blocks + fold - 1) / fold;
  if (most > multiprocessors) most = multiprocessors;
  if (most > kMostAttentionRing) most = kMostAttentionRing;
  for (int size = int(most); size >= 1; --size) {
    int64_t rings = multiprocessors / size;
    if (rings > heads) rings = heads;
    const int64_t rounds =
        (heads + rings - 1) / rings * ((key_blocks + size * fold - 1) / (size * fold));
    if (fewest >= 0 && rounds >= fewest) continue;
    fewest = rounds;
    best = {size, int(rings)};
  }
  return best;
}

template <class T>
struct AttentionBackwardArguments {
  tile::cuda::TensorMap q, grad;  // [B, Hq, S, D], a box is 64 x 64
  tile::cuda::TensorMap k, v;     // [B, H, L, D], a box is 64 x 64
  int batches, q_heads, kv_heads, group;
  int queries, keys;     // of a sequence
  int query_blocks;      // of a sequence
  int dims, value_dims;  // that exist
  int key_blocks;
  int ring;              // blocks of threads that share a head of keys
  int fold;              // blocks of keys of each in a round: 2 under a causal mask, or 1
  float scale;           // of gradients of queries and keys
  float score_scale;     // before the cap; 0: there is none
  float exponent_scale;  // of scores, or of what the cap leaves of them, to powers of two
  int before, after;     // keys seen on either side of the own position; < 0: all
  View<const int32_t, 1> kv_lens;
  AttentionRows<const T> grad_rows, out_rows;
  AttentionRows<T> q_grad, k_grad, v_grad;  // rows begin at multiples of 16 bytes
  View<const float, 3> lse;                 // [B, Hq, S]
  // Workspace, by batch entry, head of queries and block of queries:
  float* rows;    // lse in powers of two, then grad · out, of each query
  float* q_sums;  // gradients of queries before `scale`, as the registers of a consumer hold them
  int* ranks;     // by key block too: how many blocks of keys are added before
  int* added;     // how many blocks of keys have been added to them

  TW_INLINE int kv_len(int batch) const { return kv_lens ? kv_lens(batch) : keys; }
  /// Ranks of a head within its group; batch entries differ if their lengths do.
  TW_INLINE int rank_batches() const { return kv_lens ? batches : 1; }
  TW_INLINE int64_t rank_place(int batch, int within, int block) const {
    return ((int64_t{kv_lens ? batch : 0} * group + within) * query_blocks + block) * key_blocks;
  }
  TW_INLINE int64_t place(int batch, int head, int block) const {
    return (int64_t{batch} * q_heads + head) * query_blocks + block;
  }
};

}  // namespace tw::kernels

// What the host and the device agree on about attention's backward on Hopper: how a kernel is
// compiled, what it is given, and how the work is dealt. Neutral.
#pragma once

#include "tilewright/kernels/attention_build_sm90.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled: two consumer warpgroups, and blocks of queries.
struct AttentionBackwardBuild {
  static constexpr int kConsumers = 2, kThreads = 128 * (1 + kConsumers);

  int dims;     // of queries, keys and values, a multiple of 64; what is missing reads as zero
  int queries;  // of a block

  /// Sums of 64 keys and values for more than 128 dims do not fit into one warpgroup's registers:
  /// one has those of values, the other those of keys.
  TW_INLINE constexpr bool splits_roles() const { return dims > 128; }
  /// Products of 64 dims take no longer than exponentials and slopes. Registers and shared memory
  /// are enough to have some of two steps under way.
  TW_INLINE constexpr bool defers() const { return dims == 64; }
  /// 64 Ki registers, in the units of setmaxnreg: sums leave little for what loads.
  TW_INLINE constexpr int feed_registers() const { return dims == 64 ? 40 : 24; }
  TW_INLINE constexpr int consumer_registers() const { return dims == 64 ? 232 : 240; }
  TW_INLINE constexpr int keys() const { return splits_roles() ? 64 : 64 * kConsumers; }
  /// Values are in registers where products are deferred: the next ones may come early, too.
  TW_INLINE constexpr int key_buffers() const { return defers() ? 2 : 1; }
  TW_INLINE constexpr int query_stages() const { return defers() ? 4 : 2; }
  TW_INLINE constexpr int grad_stages() const { return splits_roles() ? 1 : query_stages(); }
  /// A consumer's share of the queries' gradients is handed over in pieces, through buffers.
  TW_INLINE constexpr int pieces() const { return splits_roles() ? 2 : 1; }
  TW_INLINE constexpr int sum_buffers() const { return splits_roles() ? 1 : defers() ? 4 : 2; }
  TW_INLINE constexpr int parts() const { return kConsumers * pieces(); }
  TW_INLINE constexpr int part_dims() const { return dims / parts(); }
  TW_INLINE constexpr int part_count() const { return queries * part_dims(); }
  /// Of the kernels before and after.
  static constexpr int kRowThreads = 256;
  TW_INLINE constexpr int query_threads() const { return 128 * parts(); }
  TW_INLINE constexpr int key_bytes() const { return keys() * dims * 2; }
  TW_INLINE constexpr int query_bytes() const { return queries * dims * 2; }
  TW_INLINE constexpr int slope_bytes() const { return keys() * queries * 2; }
  TW_INLINE constexpr int weight_count() const { return splits_roles() ? keys() * queries : 0; }
  TW_INLINE constexpr int sum_count() const { return queries * dims; }  // of queries' gradients
  TW_INLINE constexpr int row_bytes() const { return 2 * queries * int(sizeof(float)); }
  TW_INLINE constexpr int shared_bytes() const {
    constexpr int kAlignment = 1024, kBarriers = 1024;
    const int rows =
        (query_stages() + grad_stages()) * query_bytes() + query_stages() * row_bytes();
    const int floats = weight_count() + kConsumers * sum_buffers() * part_count();
    const int used =
        (key_buffers() + 1) * key_bytes() + rows + 2 * slope_bytes() + floats * int(sizeof(float));
    return (used + kBarriers + kAlignment - 1) / kAlignment * kAlignment;
  }
};

inline constexpr AttentionBackwardBuild kAttentionBackwardBuilds[] = {
    {.dims = 64, .queries = 64}, {.dims = 128, .queries = 64}, {.dims = 256, .queries = 64}};
inline constexpr int kAttentionBackwardBuildCount =
    int(sizeof(kAttentionBackwardBuilds) / sizeof(kAttentionBackwardBuilds[0]));
inline constexpr int kMostAttentionRing = 256, kAttentionScheduleThreads = 1024;

/// Where a block of queries has the number of query `i`: four of sixteen, those that a thread of a
/// consumer needs, follow each other.
TW_INLINE constexpr int attention_row_place(int i) {
  return i / 16 * 16 + i % 8 / 2 * 4 + i / 8 % 2 * 2 + i % 2;
}

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

/// A sequence's rows in the tensors and blocks in the workspace.
struct AttentionBackwardSequence {
  int outer;                   // batch entry
  int first_query, first_key;  // rows of the batch entry before
  int queries, keys;           // that are there
  int key_rows;                // also of keys that are not there: of their gradients
  int first_block;             // of queries, among those of all sequences
  int ring;                    // blocks of threads that share a head of keys
};

/// Where TMA finds the first row of a sequence: coordinates beside those of dims and heads.
///
/// Of sequences in one tensor, each must end like a tensor: what follows reads as zero. Row i of
/// `count` is row kFar - count + i of kFar, outer is the row after the last, and `wrap` steps of
/// 2^34 bytes less a row make 2^64 bytes, which is none, less kFar rows.
struct AttentionOrigin {
  static constexpr int kFar = 1 << 30;
  int row, outer, wrap;

  TW_INLINE static AttentionOrigin of_rows(int first, int count) {
    return {kFar - count, first + count, kFar};
  }
};

/// Sequences of different lengths, the longest first: whose heads begin with this item of work.
struct AttentionBackwardTurn {
  int first_item, sequence;
};

template <class T>
struct AttentionBackwardArguments {
  tile::cuda::TensorMap q, grad;  // [B, Hq, S, D], a box is 64 x 64
  tile::cuda::TensorMap k, v;     // [B, H, L, D], a box is 64 x 64
  int sequences, q_heads, kv_heads, group;
  int queries, keys;     // of a sequence, where no offsets say otherwise; or of all
  int query_blocks;      // of a sequence, where all are equally long
  int blocks;            // of queries, of all sequences
  int dims, value_dims;  // that exist
  int key_blocks;        // of a sequence, at most
  int ring;              // blocks of threads that share a head of keys; 0: as `rings` has it
  int workers;           // blocks of threads that can share it
  int fold;              // blocks of keys of each in a round: 2 under a causal mask, or 1
  float scale;           // of gradients of queries and keys
  float score_scale;     // before the cap; 0: there is none
  float exponent_scale;  // of scores, or of what the cap leaves of them, to powers of two
  int before, after;     // keys seen on either side of the own position; < 0: all
  View<const int32_t, 1> q_offsets, kv_offsets;  // both or none: rows before each sequence
  View<const int32_t, 1> kv_lens;
  AttentionRows<const T> grad_rows, out_rows;
  AttentionRows<T> q_grad, k_grad, v_grad;  // rows begin at multiples of 16 bytes
  View<const float, 3> lse;                 // [B, Hq, S]
  // Workspace, by head of queries and block of queries:
  float* rows;    // lse in powers of two, then grad · out, of each query (attention_row_place)
  float* q_sums;  // gradients of queries before `scale`, as the registers of a consumer hold them
  int* ranks;     // by head of a group and by key block: how many blocks of keys are added before
  int* added;     // by consumer: how many blocks of keys have been added to its parts of them
  // By sequence, where offsets say how long they are:
  int* rings;
  int* item_steps;               // how long an item of work is
  AttentionBackwardTurn* turns;  // one more than sequences: the last has the count of items

  /// Sequences that are equally long have the same ranks.
  TW_INLINE bool shares_ranks() const { return !q_offsets && !kv_lens; }
  TW_INLINE int rank_blocks() const { return shares_ranks() ? query_blocks : blocks; }
  TW_INLINE int64_t rank_count() const { return int64_t{group} * rank_blocks() * key_blocks; }
  TW_INLINE int64_t rank_place(const AttentionBackwardSequence& of, int within, int block) const {
    const int first = shares_ranks() ? 0 : of.first_block;
    return (int64_t{within} * rank_blocks() + first + block) * key_blocks;
  }
  TW_INLINE int64_t place(const AttentionBackwardSequence& of, int head, int block) const {
    return int64_t{head} * blocks + of.first_block + block;
  }

  /// A sequence's blocks end before the next one's begin: each has at most one more than the whole
  /// ones between the offsets.
  TW_INLINE int first_block(int sequence, int block_queries) const {
    return q_offsets ? q_offsets(sequence) / block_queries + sequence : sequence * query_blocks;
  }
  TW_INLINE AttentionBackwardSequence sequence(int i, int block_queries) const {
    const int block = first_block(i, block_queries);
    if (!q_offsets) return {i, 0, 0, queries, kv_lens ? kv_lens(i) : keys, keys, block, ring};
    const int row = q_offsets(i), key = kv_offsets(i), count = kv_offsets(i + 1) - key;
    return {0, row, key, q_offsets(i + 1) - row, count, count, block, rings[i]};
  }
  TW_INLINE AttentionOrigin q_origin(const AttentionBackwardSequence& of) const {
    if (!q_offsets) return {0, of.outer, 0};
    return AttentionOrigin::of_rows(of.first_query, of.queries);
  }
  TW_INLINE AttentionOrigin k_origin(const AttentionBackwardSequence& of) const {
    if (!q_offsets) return {0, of.outer, 0};
    return AttentionOrigin::of_rows(of.first_key, of.keys);
  }
};

}  // namespace tw::kernels

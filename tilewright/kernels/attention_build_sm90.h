// What the host and the device agree on about attention on Hopper: how a kernel is compiled, what
// it is given, and in which order it works. Neutral.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled.
struct AttentionBuild {
  int dims;       // of queries, keys and values, a multiple of 64; what is missing reads as zero
  int consumers;  // warpgroups, of 64 rows each
  int keys;       // of a block
  int stages;     // of the rings of keys and of values
  bool turns;     // whether the consumers take turns with the tensor cores

  TW_INLINE constexpr int threads() const { return 128 * (1 + consumers); }
  TW_INLINE constexpr int query_bytes() const { return 64 * dims * 2; }  // of a consumer
  TW_INLINE constexpr int block_bytes() const { return keys * dims * 2; }
  /// Two buffers of queries where they fit: the next tile's arrive while one is worked on, and its
  /// first scores are multiplied beside the last values of this one.
  TW_INLINE constexpr int query_buffers() const { return shared_bytes(2) <= kMostShared ? 2 : 1; }
  TW_INLINE constexpr int shared_bytes() const { return shared_bytes(query_buffers()); }
  /// 64 Ki registers, less what the producer keeps, in the units of setmaxnreg.
  TW_INLINE constexpr int producer_registers() const {
    return consumers == 1 ? 56 : consumers == 2 ? 40 : 32;
  }
  TW_INLINE constexpr int consumer_registers() const {
    return consumers == 1 ? 248 : consumers == 2 ? 232 : 160;
  }

 private:
  static constexpr int kMostShared = 227 * 1024;  // of a block of threads
  TW_INLINE constexpr int shared_bytes(int buffers) const {
    constexpr int kAlignment = 1024;  // the barriers fit into what it rounds up to
    return buffers * consumers * query_bytes() + 2 * stages * block_bytes() + kAlignment;
  }
};

/// The order of a launch's tiles: those of a head follow each other, so that its keys stay in L2.
struct AttentionOrder {
  int tiles;  // of the queries of a sequence; of variable ones, at most, of all of them
  int heads;  // counted in packs
  int batches, splits;
  /// Tile i and the i-th from the end are one item: under a causal mask all items are equally long.
  bool folded;

  TW_INLINE int folded_tiles() const { return folded ? (tiles + 1) / 2 : tiles; }
  TW_INLINE int64_t items() const { return int64_t{folded_tiles()} * splits * heads * batches; }
};

/// Rows in memory, one for each query and head; the elements of a row are adjacent.
template <class T>
struct AttentionRows {
  T* data;
  int64_t batch_stride, query_stride, head_stride;

  TW_INLINE explicit operator bool() const { return data != nullptr; }
  TW_INLINE T* at(int64_t batch, int64_t query, int64_t head) const {
    return data + batch * batch_stride + query * query_stride + head * head_stride;
  }
};

template <class T>
struct AttentionArguments {
  tile::cuda::TensorMap q;     // [B, Hq / pack, S, pack, D], a box is queries x pack x 64
  tile::cuda::TensorMap k, v;  // [B or pages, H, S, D], a box is box_keys x 64
  AttentionOrder order;
  int q_heads, value_dims;
  int pack;              // heads of one query that are rows of one tile
  int heads_per_kv;      // packs that share a head of keys
  int sequences;         // with q_offsets
  int queries, keys;     // of a sequence, where no table says otherwise
  int box_keys;          // divides the keys of a block
  int page_keys;         // a multiple of box_keys
  float score_scale;     // before the cap; 0: there is none
  float exponent_scale;  // of scores, or of what the cap leaves of them, to powers of two
  int before, after;     // keys seen on either side of the own position; < 0: all
  View<const int32_t, 1> q_offsets, kv_offsets, kv_lens;
  View<const int32_t, 2> table;
  View<const float, 1> sinks;
  AttentionRows<T> rows;          // out; rows begin at multiples of 16 bytes
  AttentionRows<float> lse;       // or no data
  AttentionRows<float> partials;  // a batch is a split; no data: there is one split
  AttentionRows<float> partial_lse;

  /// Whether what follows the last key of a sequence is memory of others.
  TW_INLINE bool shares_memory() const { return kv_offsets || kv_lens; }
};

// ---- the sum over splits

inline constexpr int kAttentionCombineThreads = 128, kAttentionMostSplits = 128;
/// How many lanes share the splits of a column: of few, and of many.
inline constexpr int kAttentionCombineWays[] = {1, 4};

TW_INLINE constexpr int attention_combine_build(int splits) {
  return splits < 8 ? 0 : 1;
}
/// Blocks of a row; a thread has four columns.
TW_INLINE constexpr int attention_combine_blocks(int value_dims, int ways) {
  const int of_block = 4 * kAttentionCombineThreads / ways;
  return (value_dims + of_block - 1) / of_block;
}

}  // namespace tw::kernels

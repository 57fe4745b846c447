// What the attention kernels agree on: which keys a query sees, how the keys of a sequence are cut
// into blocks, and where a block lies in memory.
//
// Blocks start at multiples of kKeyBlock of the absolute position, whatever the query sees of them:
// each block's maximum, sum and weighted values are computed on their own and merged in block
// order, so a row has the same bits in prefill, in decode, and however the blocks are spread over
// threads.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/kernels/attention_output.h"
#include "tilewright/kernels/score_program.h"
#include "tilewright/tile/compute_type.h"
#include "tilewright/tile/paged.h"

namespace tw::kernels {

inline constexpr int64_t kKeyBlock = 128;

TW_INLINE constexpr int64_t key_blocks(int64_t keys) {
  return (keys + kKeyBlock - 1) / kKeyBlock;
}

/// Keys [begin, end); empty when begin >= end.
struct KeyRange {
  int64_t begin, end;
  TW_INLINE bool empty() const { return begin >= end; }
};

/// The keys that query i of q_len sees of kv_len: its own position is i + kv_len - q_len, so the
/// last query stands at the last key.
struct AttentionMask {
  int64_t q_len = 0, kv_len = 0;
  int64_t left = -1, right = -1;  // keys seen before and after the own position; < 0: all

  TW_INLINE KeyRange keys(int64_t i) const {
    const int64_t at = i + kv_len - q_len;
    KeyRange out{0, kv_len};
    if (left >= 0 && left < at) out.begin = at - left;
    if (right >= 0 && right < kv_len - at - 1) out.end = at + right + 1;
    return out;
  }
  /// The queries that see key j.
  TW_INLINE KeyRange queries(int64_t j) const {
    const int64_t at = j + q_len - kv_len;  // the query that stands there
    KeyRange out{0, j < kv_len ? q_len : 0};
    if (right >= 0 && right < at) out.begin = at - right;
    if (left >= 0 && left < out.end - at - 1) out.end = at + left + 1;
    return out;
  }
  /// The union over queries [first, last]; both ends of keys() grow with the query.
  TW_INLINE KeyRange keys(int64_t first, int64_t last) const {
    return {keys(first).begin, keys(last).end};
  }
};

/// The keys (or values, or their scales) of one sequence, and consecutive ones of a page.
template <class U>
using KeySource = tile::PagedRows<U>;
template <class U>
using KeySegment = tile::RowSegment<U>;
template <class... Views>
TW_INLINE auto key_source(const Views&... x) {
  return tile::paged_rows(x...);
}

/// Which queries and heads the rows of a tile are: row r is query first_query + r / group with head
/// r % group of the kv head's group.
struct TileRows {
  int64_t first_query = 0, rows = 0, group = 1, kv_head = 0;

  TW_INLINE int64_t query(int64_t row) const { return first_query + row / group; }
  TW_INLINE int64_t q_head(int64_t row) const { return kv_head * group + row % group; }
};

/// One sequence of a batch: its queries over its keys.
template <class T, class U>
struct AttentionSequence {
  View<const T, 3> q;                  // [q_len, Hq, D]
  View<attention_output_t<T>, 3> out;  // [q_len, Hq, Dv]
  View<float, 2> lse;                  // [Hq, q_len], or no data
  int64_t index = 0;                   // in the batch
  int64_t kv_len = 0;
  KeySource<U> k, v;                  // of kv head 0
  KeySource<float> k_scale, v_scale;  // of kv head 0, or no data
  int64_t scale_parts = 1;            // equal parts of a row's dims that have a scale each
  View<const T, 3> q_pe{};            // [q_len, Hq, R], further dims of queries, or no data
  KeySource<T> k_pe{};                // and of keys
  View<const T, 3> bias{};            // [Hq, q_len, kv_len or more], or no data
  View<const float, 1> q_scale{};     // of the queries of each kv head, or no data

  TW_INLINE float query_scale(int64_t kv_head) const { return q_scale ? q_scale(kv_head) : 1.0f; }
  TW_INLINE int64_t q_len() const { return q.size(0); }
};

/// Elements [begin, begin + count) of the first dimension.
template <class T, int kRank>
TW_INLINE View<T, kRank> rows_from(View<T, kRank> x, int64_t begin, int64_t count) {
  x.data += begin * x.stride(0);
  x.sizes[0] = count;
  return x;
}

/// Where the sequences of a batch begin and how many keys they have.
struct SequenceLengths {
  int64_t sequences = 0;
  int64_t queries = 0, keys = 0;      // of each, where no table says otherwise
  View<const int32_t, 1> q_offsets;   // [sequences + 1], or no data
  View<const int32_t, 1> kv_offsets;  // [sequences + 1], or no data
  View<const int32_t, 1> kv_lens;     // [sequences], or no data

  TW_INLINE int64_t first_query(int64_t b) const { return q_offsets ? q_offsets(b) : b * queries; }
  TW_INLINE int64_t q_len(int64_t b) const { return first_query(b + 1) - first_query(b); }
  TW_INLINE int64_t kv_len(int64_t b) const {
    if (kv_offsets) return kv_offsets(b + 1) - kv_offsets(b);
    return kv_lens ? kv_lens(b) : keys;
  }
};

/// Sequence b of a kernel whose queries lie one after the other: all but its keys.
template <class T, class U, class K>
TW_INLINE AttentionSequence<T, U> packed_sequence(const K& kernel, int64_t b) {
  const SequenceLengths all = kernel.lengths();
  const int64_t first = all.first_query(b), queries = all.q_len(b);
  AttentionSequence<T, U> out;
  out.q = rows_from(kernel.q, first, queries);
  out.out = rows_from(kernel.out, first, queries);
  if (kernel.lse) {
    out.lse = kernel.lse;
    out.lse.data += first * kernel.lse.stride(1);
  }
  out.index = b;
  out.kv_len = all.kv_len(b);
  return out;
}

/// What the sequences of a batch share.
struct AttentionShape {
  int64_t q_heads = 0, kv_heads = 0, dims = 0, value_dims = 0;
  int64_t rotated_dims = 0;  // that scores have beside `dims` (kernels/mla.h)

  TW_INLINE int64_t group() const { return kv_heads > 0 ? q_heads / kv_heads : 0; }
};

/// The scalar arguments that all attention operators share.
struct AttentionOptions {
  View<const float, 1> sinks;  // [Hq], or no data
  float scale = 0;             // 0: 1 / sqrt(D)
  bool causal = false;
  int64_t window_left = -1, window_right = -1;
  float softcap = 0;
  View<const float, 1> slopes{};  // [Hq], or no data
  ScoreMods mods{};               // after all that is added

  TW_INLINE AttentionMask mask(int64_t q_len, int64_t kv_len) const {
    return {q_len, kv_len, window_left, causal ? 0 : window_right};
  }
};

/// What is added to the scores of a query of a head: the biases of its pairs, and one that grows
/// with the distance (ALiBi, arXiv:2108.12409).
template <class T>
struct AddedToScores {
  const T* bias = nullptr;  // of the query's pairs, or no data
  int64_t stride = 0;       // of keys
  int64_t own = 0;          // the key at the query's position
  float slope = 0;

  template <class U>
  TW_INLINE AddedToScores(const AttentionSequence<T, U>& sequence, const AttentionOptions& options,
                          int64_t q_head, int64_t query)
      : own(query + sequence.kv_len - sequence.q_len()) {
    if (sequence.bias) {
      const View<const T, 1> row = sequence.bias[q_head][query];
      bias = row.data;
      stride = row.stride(0);
    }
    if (options.slopes) slope = options.slopes(q_head);
  }
  TW_INLINE float to(float score, int64_t key) const {
    if (bias != nullptr) score += float(bias[key * stride]);
    if (slope != 0) score -= slope * float(key < own ? own - key : key - own);
    return score;
  }
};

}  // namespace tw::kernels

// What the attention kernels agree on: which keys a query sees, how the keys of a sequence are cut
// into blocks, and where a block lies in memory.
//
// Blocks start at multiples of kKeyBlock of the absolute position, whatever the query sees of them:
// each block's maximum, sum and weighted values are computed on their own and merged in block
// order, so a row has the same bits in prefill, in decode, and however the blocks are spread over
// threads.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/tile/compute_type.h"

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

/// Consecutive keys that lie at one stride.
template <class U>
struct KeySegment {
  const U* data;  // key 0, dimension 0
  int64_t key_stride, dim_stride;
  int64_t count;     // keys
  int64_t readable;  // keys from data on that are memory of the same page, >= count
};

/// The keys (or values, or their scales) of one sequence: one piece of memory, or pages found
/// through a block table.
template <class U>
struct KeySource {
  const U* data = nullptr;
  int64_t key_stride = 0, dim_stride = 0, head_stride = 0;
  int64_t page_size = 0;  // keys per page; of a contiguous sequence, its capacity
  int64_t page_stride = 0;
  const int32_t* table = nullptr;  // page of keys [i * page_size, ...); null: all in page 0
  int64_t table_stride = 0;

  TW_INLINE explicit operator bool() const { return data != nullptr; }
  TW_INLINE KeySource head(int64_t h) const {
    KeySource out = *this;
    if (out.data != nullptr) out.data += h * head_stride;
    return out;
  }
  /// The keys from `first` on, at most up to `end` and the end of first's page.
  TW_INLINE KeySegment<U> at(int64_t first, int64_t end) const {
    int64_t page = 0, inside = first;
    if (table != nullptr) {
      const int64_t i = first / page_size;
      page = table[i * table_stride];
      inside = first - i * page_size;
    }
    const int64_t readable = page_size - inside, wanted = end - first;
    return {data + page * page_stride + inside * key_stride, key_stride, dim_stride,
            wanted < readable ? wanted : readable, readable};
  }
  /// Where the share of `key` begins in the memory of its page and head, whichever way the page is
  /// laid out, if its keys have `dims` elements each and lie close.
  TW_INLINE const U* share(int64_t key, int64_t dims) const {
    const KeySegment<U> segment = at(key, key + 1);
    const int64_t inside = page_size - segment.readable;
    return segment.data + inside * (dims - key_stride);
  }
  TW_INLINE bool is_close(int64_t dims) const {
    return (key_stride == 1 && dim_stride == page_size) || (dim_stride == 1 && key_stride == dims);
  }
};

/// Keys in one tensor, [L, H, D].
template <class U>
TW_INLINE KeySource<U> key_source(const View<const U, 3>& x) {
  return {x.data, x.stride(0), x.stride(2), x.stride(1), x.size(0), 0, nullptr, 0};
}
/// Their scales, [L, H]; no data gives none.
TW_INLINE KeySource<float> key_source(const View<const float, 2>& x) {
  return {x.data, x.stride(0), 0, x.stride(1), x.size(0), 0, nullptr, 0};
}
/// Keys in pages, [pages, page_size, H, D], the i-th of which is table(i).
template <class U>
TW_INLINE KeySource<U> key_source(const View<const U, 4>& x, const View<const int32_t, 1>& table) {
  return {x.data,    x.stride(1), x.stride(3), x.stride(2),
          x.size(1), x.stride(0), table.data,  table.stride(0)};
}
TW_INLINE KeySource<float> key_source(const View<const float, 3>& x,
                                      const View<const int32_t, 1>& table) {
  return {x.data, x.stride(1), 0, x.stride(2), x.size(1), x.stride(0), table.data, table.stride(0)};
}

/// Calls f(segment, offset) for the pieces of keys [first, end), none longer than `longest`; offset
/// counts from first.
template <class U, class F>
TW_INLINE void for_segments(const KeySource<U>& source, int64_t first, int64_t end, int64_t longest,
                            F&& f) {
  for (int64_t j = first; j < end;) {
    const KeySegment<U> segment = source.at(j, end < j + longest ? end : j + longest);
    f(segment, j - first);
    j += segment.count;
  }
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
  View<const T, 3> q;  // [q_len, Hq, D]
  View<T, 3> out;      // [q_len, Hq, Dv]
  View<float, 2> lse;  // [Hq, q_len], or no data
  int64_t kv_len = 0;
  KeySource<U> k, v;                  // of kv head 0
  KeySource<float> k_scale, v_scale;  // of kv head 0, or no data
  View<const T, 3> q_pe{};            // [q_len, Hq, R], further dims of queries, or no data
  KeySource<U> k_pe{};                // and of keys
  View<const T, 3> bias{};            // [Hq, q_len, kv_len or more], or no data

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

/// What the sequences of a batch share.
struct AttentionShape {
  int64_t q_heads = 0, kv_heads = 0, dims = 0, value_dims = 0;

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

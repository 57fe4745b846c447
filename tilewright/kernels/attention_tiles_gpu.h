// Attention on a GPU in tiles of 64 rows: how the work is cut. A program has a tile of one kv head,
// the queries of its group of heads stacked, and a slice of the values' dims; attention_tile_gpu.h
// is its schedule.
#pragma once

#include "tilewright/kernels/attention_blocks.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

/// What a product's operands are in shared memory: what the matrix instruction takes, if it holds
/// the keys exactly, else float32.
template <bool kIsNarrow, class T>
struct AttentionOperand {
  using type = float;
};
template <class T>
struct AttentionOperand<true, T> {
  using type = T;
};
template <class T, class U>
using attention_operand_t =
    typename AttentionOperand<sizeof(T) == 2 && (tile::same_type<T, U> || sizeof(U) == 1), T>::type;

/// Rows of a sequence, query by query, of the heads of a group: `count` from head `first_head` of
/// the group, of query `first_query`, on.
struct StackedRows {
  int64_t first_query = 0, kv_head = 0;
  int first_head = 0, count = 0, group = 1;

  TW_INLINE int64_t query(int row) const { return first_query + (first_head + row) / group; }
  TW_INLINE int64_t q_head(int row) const { return kv_head * group + (first_head + row) % group; }
};

/// Where a program's work lies: `sequence` is -1 if there is none for it.
struct AttentionTilePlace {
  int64_t sequence = -1;
  StackedRows rows;
  int64_t first_value = 0;  // dim
};

/// What all tiles have in common.
struct AttentionTileSizes {
  static constexpr int kThreads = 128, kRows = 64, kKeys = 32;
  static constexpr int kDims = 128, kValueDims = 128;  // in shared memory, of keys and of values
  static constexpr int kWeightPitch = kKeys + 4;
};

template <class T, class U>
struct AttentionTiles : AttentionTileSizes {
  using E = attention_operand_t<T, U>;
  static constexpr int kUnit = 16 / int(sizeof(E));  // elements of a word
  static constexpr int kStep = 2 * kUnit;            // that dims are padded to a multiple of
  /// Queries of more bytes are read again for each block of keys, as many dims at a time as keys.
  static constexpr int64_t kMostHeldBytes = 52 << 10;
  /// Rows of a sequence from which on a tile is quicker than programs of a row each.
  static constexpr int64_t kLeastRows = 16;

  AttentionShape shape;
  SequenceLengths lengths;
  int64_t queries;  // of all sequences

  TW_INLINE static int64_t padded(int64_t dims) { return (dims + kStep - 1) / kStep * kStep; }
  /// Of rows, so that words of a column lie in different banks.
  TW_INLINE static int64_t pitch(int64_t dims) { return padded(dims) + kUnit; }

  TW_INLINE bool pay() const {
    return shape.q_heads > 0 && queries * shape.group() >= kLeastRows * lengths.sequences;
  }
  TW_INLINE int64_t key_pitch() const { return pitch(tile::lesser(shape.dims, kDims)); }
  TW_INLINE bool holds_queries() const {
    return kRows * pitch(shape.dims) * int64_t{sizeof(E)} <= kMostHeldBytes;
  }
  TW_INLINE int64_t query_pitch() const {
    return holds_queries() ? pitch(shape.dims) : key_pitch();
  }
  /// Of the values' dims that products are made of.
  TW_INLINE int64_t value_columns() const {
    return shape.value_dims > kValueDims / 2 ? kValueDims : kValueDims / 2;
  }
  TW_INLINE int64_t value_pitch() const { return value_columns() + kUnit; }
  TW_INLINE int64_t slices() const { return (shape.value_dims + kValueDims - 1) / kValueDims; }
  TW_INLINE int64_t tiles(int64_t q_len) const {
    return index_quotient(q_len * shape.group() + kRows - 1, kRows);
  }

  /// What the threads of a program share, in shared memory: registers are the sums'.
  struct Call;
  /// What is known of a row, and of a key of the present block and of the next.
  struct Row {
    KeyRange seen;
    int64_t query, q_head;
  };
  struct Key {
    const U *key, *value;  // null past the keys that the tile sees
    float factor, value_factor;
  };
  /// All in all at most 98 KiB, for which every GPU's shared memory has room.
  TW_INLINE int64_t operand_elements() const {
    return kRows * query_pitch() + kKeys * (key_pitch() + value_pitch());
  }
  TW_INLINE int64_t scratch_bytes() const {
    return int64_t{sizeof(Call)} + operand_elements() * int64_t{sizeof(E)} +
           kRows * int64_t{sizeof(Row)} + 2 * kKeys * int64_t{sizeof(Key)} +
           kRows * kWeightPitch * int64_t{sizeof(float)};
  }

  /// The ends of sequences are not known here, where they are in a table: each adds a tile at most.
  TW_INLINE tile::Plan plan() const {
    const int64_t all = lengths.q_offsets ? tiles(queries) + lengths.sequences
                                          : tiles(lengths.queries) * lengths.sequences;
    return tile::plan_of(all * shape.kv_heads * slices(), scratch_bytes()).over_threads(kThreads);
  }

  /// Of program `index`. The last tile of a sequence comes first: causal, it sees most keys.
  TW_INLINE AttentionTilePlace place(int64_t index) const {
    AttentionTilePlace out;
    const int64_t slice_of = index_quotient(index, slices());
    out.first_value = (index - slice_of * slices()) * kValueDims;
    int64_t tile = index_quotient(slice_of, shape.kv_heads), b = 0;
    out.rows.kv_head = slice_of - tile * shape.kv_heads;
    out.rows.group = int(shape.group());
    if (lengths.q_offsets) {
      for (; b < lengths.sequences && tile >= tiles(lengths.q_len(b)); ++b)
        tile -= tiles(lengths.q_len(b));
    } else {
      b = index_quotient(tile, tiles(lengths.queries));
      tile -= b * tiles(lengths.queries);
    }
    if (b >= lengths.sequences) return out;
    const int64_t q_len = lengths.q_len(b), rows = q_len * shape.group();
    out.sequence = b;
    const int64_t first = (tiles(q_len) - 1 - tile) * kRows;
    out.rows.first_query = index_quotient(first, shape.group());
    out.rows.first_head = int(first - out.rows.first_query * shape.group());
    out.rows.count = int(tile::lesser(rows - first, kRows));
    return out;
  }
};

template <class T, class U>
struct alignas(16) AttentionTiles<T, U>::Call {
  AttentionTiles tiles;
  AttentionTilePlace place;
  AttentionSequence<T, U> sequence;
  AttentionOptions options;
  float scale;
};

template <class T, class U, class K>
TW_INLINE AttentionTiles<T, U> attention_tiles(const K& kernel) {
  int64_t queries = kernel.q.size(0);
  if constexpr (sizeof(kernel.q.sizes) == 4 * sizeof(int64_t)) queries *= kernel.q.size(1);
  return {{}, kernel.shape(), kernel.lengths(), queries};
}

}  // namespace tw::kernels

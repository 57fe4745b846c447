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

/// How a tile of 64 rows is cut. A warp has 16 of them, alone or beside others that have keys and
/// values of their own.
struct AttentionCut {
  int across;      // warps for the same rows
  int keys;        // of a block
  int dims;        // of a block's keys or values that shared memory takes at a time
  int value_dims;  // of a program

  TW_INLINE constexpr int threads() const { return 128 * across; }
  TW_INLINE constexpr int warp_keys() const { return keys / across; }
  TW_INLINE constexpr int warp_values() const { return value_dims / across; }
};
/// Of 16-bit operands, and of them with more dims than a warp has registers for, where a GPU has
/// 224 KiB for a program.
inline constexpr AttentionCut kAttentionCut{1, 32, 128, 128}, kAttentionWideCut{4, 64, 512, 512};
/// Of float32, and of that with more than 64 dims of values.
inline constexpr AttentionCut kAttentionFloatCut{1, 64, 64, 64},
    kAttentionLongFloatCut{1, 64, 64, 128};

/// What all tiles have in common.
struct AttentionTileSizes {
  static constexpr int kRows = 64, kColumns = 64;  // that values are padded to
};

template <class T, class U>
struct AttentionTiles : AttentionTileSizes {
  using E = attention_operand_t<T, U>;
  static constexpr bool kIsFloat = tile::same_type<E, float>;
  static constexpr int kUnit = 16 / int(sizeof(E));  // elements of a word
  static constexpr int kStep = 2 * kUnit;            // that dims are padded to a multiple of
  static constexpr AttentionCut kCut = kIsFloat ? kAttentionFloatCut : kAttentionCut;
  static constexpr AttentionCut kLargeCut = kIsFloat ? kAttentionLongFloatCut : kAttentionWideCut;
  /// Queries of more bytes are read again for each block of keys, as many dims at a time as keys.
  static constexpr int64_t kMostHeldBytes = (kIsFloat ? 34 : 52) << 10;
  /// Rows of a sequence from which on a tile is quicker than programs of a row each.
  static constexpr int64_t kLeastRows = 16;

  AttentionShape shape;
  SequenceLengths lengths;
  int64_t queries;  // of all sequences
  bool is_large;    // kLargeCut

  TW_INLINE static int64_t padded(int64_t dims) { return (dims + kStep - 1) / kStep * kStep; }
  /// Of rows, so that words of a column lie in different banks.
  TW_INLINE static int64_t pitch(int64_t dims) { return padded(dims) + kUnit; }

  TW_INLINE bool pay() const {
    return shape.q_heads > 0 && queries * shape.group() >= kLeastRows * lengths.sequences;
  }
  TW_INLINE AttentionCut cut() const {
    constexpr AttentionCut kLarge = kLargeCut, kOther = kCut;  // device code has no static members
    return is_large ? kLarge : kOther;
  }
  /// Whether kLargeCut is for such dims, where a block of threads has so many bytes.
  TW_INLINE bool wants_large(int64_t shared_bytes) const {
    if constexpr (kIsFloat) {
      return shape.value_dims > kCut.value_dims;
    } else {
      AttentionTiles large = *this;
      large.is_large = true;
      const int64_t most = shape.dims > shape.value_dims ? shape.dims : shape.value_dims;
      return shape.dims <= kLargeCut.dims && most > 2 * kCut.dims &&
             large.scratch_bytes() <= shared_bytes;
    }
  }

  TW_INLINE bool holds_queries() const {
    return kRows * pitch(shape.dims) * int64_t{sizeof(E)} <= kMostHeldBytes || cut().across > 1;
  }
  TW_INLINE int64_t key_pitch() const { return pitch(tile::lesser(shape.dims, cut().dims)); }
  TW_INLINE int64_t query_pitch() const {
    return holds_queries() ? pitch(shape.dims) : key_pitch();
  }
  /// Of the values' dims that shared memory takes at a time.
  TW_INLINE int64_t value_columns() const {
    const int64_t most = (shape.value_dims + kColumns - 1) / kColumns * kColumns;
    return tile::lesser(most, tile::lesser(cut().dims, cut().value_dims));
  }
  TW_INLINE int64_t value_pitch() const { return value_columns() + kUnit; }
  TW_INLINE int weight_pitch() const { return cut().keys + 4; }
  TW_INLINE int64_t slices() const {
    return index_quotient(shape.value_dims + cut().value_dims - 1, cut().value_dims);
  }
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
  /// All queries; or, in two buffers, what a step takes of them.
  TW_INLINE int64_t query_elements() const {
    return kRows * query_pitch() * (holds_queries() ? 1 : 2);
  }
  /// Of a buffer of keys or values, of two.
  TW_INLINE int64_t buffer_elements() const {
    return cut().keys * (key_pitch() > value_pitch() ? key_pitch() : value_pitch());
  }
  /// At most 98 KiB, for which every GPU's shared memory has room, but for kAttentionWideCut.
  TW_INLINE int64_t scratch_bytes() const {
    const int64_t floats = kRows * (weight_pitch() + (kIsFloat ? 2 : cut().across));
    return int64_t{sizeof(Call)} + (query_elements() + 2 * buffer_elements()) * int64_t{sizeof(E)} +
           kRows * int64_t{sizeof(Row)} + 2 * cut().keys * int64_t{sizeof(Key)} +
           floats * int64_t{sizeof(float)};
  }

  /// The ends of sequences are not known here, where they are in a table: each adds a tile at most.
  TW_INLINE tile::Plan plan() const {
    const int64_t all = lengths.q_offsets ? tiles(queries) + lengths.sequences
                                          : tiles(lengths.queries) * lengths.sequences;
    return tile::plan_of(all * shape.kv_heads * slices(), scratch_bytes())
        .over_threads(cut().threads());
  }

  /// Of program `index`. The last tile of a sequence comes first: causal, it sees most keys.
  TW_INLINE AttentionTilePlace place(int64_t index) const {
    AttentionTilePlace out;
    const int64_t slice_of = index_quotient(index, slices());
    out.first_value = (index - slice_of * slices()) * cut().value_dims;
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
TW_INLINE AttentionTiles<T, U> attention_tiles(const K& kernel, int64_t shared_bytes) {
  int64_t queries = kernel.q.size(0);
  if constexpr (sizeof(kernel.q.sizes) == 4 * sizeof(int64_t)) queries *= kernel.q.size(1);
  AttentionTiles<T, U> out{{}, kernel.shape(), kernel.lengths(), queries, false};
  out.is_large = out.wants_large(shared_bytes);
  return out;
}

}  // namespace tw::kernels

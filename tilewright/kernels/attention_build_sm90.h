// What the host and the device agree on about attention on Hopper: how a kernel is compiled, what
// it is given, and in which order it works. Neutral.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/kernels/attention_output.h"
#include "tilewright/kernels/score_program.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::kernels {

/// What is fixed when the kernel is compiled.
struct AttentionBuild {
  int dims;            // of queries and keys, a multiple of 16; what is missing reads as zero
  int value_dims;      // a multiple of 32
  int consumers;       // warpgroups, of 64 rows each
  int keys;            // of a block
  int stages;          // of the rings of keys and of values
  bool turns = false;  // whether the consumers take turns with the tensor cores
  /// Of the rings of keys and values of 8 bits, which a warpgroup more widens; 0: nothing is
  /// widened.
  int narrow_stages = 0;
  bool skips = false;  // blocks of keys that a mask hides wholly (AttentionSeen)
  /// Warps that transpose values, where queries have 8 bits, too: the producers' fourth, or four, a
  /// warpgroup more.
  int transposers = 0;
  /// Queries, or queries times heads, that are columns of products with keys and values of 8 bits
  /// (AttentionAcross); 0: they are rows.
  int across = 0;

  TW_INLINE constexpr bool widens() const { return narrow_stages > 0; }
  TW_INLINE constexpr bool crosses() const { return across > 0; }
  TW_INLINE constexpr bool transposes() const { return transposers > 0; }
  /// Of an element of queries.
  TW_INLINE constexpr int bytes() const { return transposes() ? 1 : 2; }
  /// Of keys and values, as they arrive.
  TW_INLINE constexpr int loaded_bytes() const {
    return widens() || transposes() || crosses() ? 1 : 2;
  }
  /// Of the tile that a consumer has.
  TW_INLINE constexpr int rows() const { return crosses() ? across : 64; }
  TW_INLINE constexpr int consumer_warps() const { return crosses() ? keys / 16 : 4 * consumers; }
  /// Warps that make operands of what arrives.
  TW_INLINE constexpr int helpers() const { return widens() ? 4 : transposers; }
  TW_INLINE constexpr bool has_helper_group() const { return helpers() == 4; }
  TW_INLINE constexpr int threads() const {
    return 128 * (1 + int(has_helper_group())) + 32 * consumer_warps();
  }
  /// Whether blocks of threads take parts of tiles, which balances but costs a sum over the parts.
  TW_INLINE constexpr bool parts() const { return consumers == 1; }
  TW_INLINE constexpr int chunks() const { return chunks(dims); }  // 128 bytes of a row
  TW_INLINE constexpr int value_chunks() const { return chunks(value_dims); }
  /// Of a row of keys or values in a box: all of it, where that is plain memory or shorter.
  TW_INLINE constexpr int box_row_bytes() const {
    return widens() || (crosses() && dims < 128) ? dims : 128;
  }
  TW_INLINE constexpr int query_bytes() const { return rows() * 128 * chunks(); }  // of a consumer
  TW_INLINE constexpr int key_bytes() const {                                      // of a block
    return crosses() ? keys * dims : keys * 128 * chunks();
  }
  TW_INLINE constexpr int value_bytes() const {
    return crosses() ? keys * value_dims : transposes() ? value_dims * 128 : loaded_value_bytes();
  }
  TW_INLINE constexpr int loaded_value_bytes() const { return keys * 128 * value_chunks(); }
  TW_INLINE constexpr int narrow_bytes() const { return keys * dims; }
  /// Two buffers of queries where they fit: the next tile's arrive while one is worked on, and its
  /// first scores are multiplied beside the last values of this one.
  TW_INLINE constexpr int query_buffers() const { return shared_bytes(2) <= kMostShared ? 2 : 1; }
  TW_INLINE constexpr int shared_bytes() const { return shared_bytes(query_buffers()); }
  /// 64 Ki registers, less what the producer keeps, in the units of setmaxnreg.
  TW_INLINE constexpr int producer_registers() const {
    return consumers == 1 || transposers == 1 ? 56 : consumers == 2 ? 40 : 32;
  }
  TW_INLINE constexpr int consumer_registers() const {
    return crosses()            ? 224
           : consumers == 1     ? 248
           : consumers == 3     ? (transposers == 1 ? 152 : 160)
           : has_helper_group() ? 208
           : transposers == 1   ? 224
                                : 232;
  }
  TW_INLINE constexpr int helper_registers() const { return widens() ? 152 : 56; }
  /// Of a consumer's thread, beside scores, weights and sums.
  TW_INLINE constexpr int spare_registers() const {
    return crosses() ? 0 : consumer_registers() - keys / 2 - keys / 4 - value_dims / 2;
  }

 private:
  static constexpr int kMostShared = 227 * 1024;  // of a block of threads
  TW_INLINE constexpr int chunks(int of) const { return (of * bytes() + 127) / 128; }
  TW_INLINE constexpr int shared_bytes(int buffers) const {
    constexpr int kScaleBytes = 4, kBarriers = 1024;  // what keeps the end aligned
    const int narrow = 2 * narrow_stages * (narrow_bytes() + keys * kScaleBytes);
    const int loaded = transposes() ? stages * loaded_value_bytes() + kBarriers
                       : crosses()  ? consumer_warps() * across * (2 * value_dims + 32)
                                    : 0;
    return buffers * consumers * query_bytes() + stages * (key_bytes() + value_bytes()) + loaded +
           narrow + kBarriers;
  }
};

/// Tiles of a sequence that blocks of threads work on side by side: those of some heads, or of all
/// heads and some tiles of queries.
struct AttentionTeam {
  int heads = 1, tiles = 1;

  TW_INLINE constexpr int size() const { return heads * tiles; }
};

/// How teams share a line of steps (AttentionLine): team i takes [begin(i), begin(i + 1)), a part
/// of every `length` of the line without its first `skip` steps, which are not parted.
struct AttentionShare {
  int length, skip, parts;

  TW_INLINE int begin(int team) const {
    const int whole = team / parts;
    return whole * length + skip + inside(team - whole * parts);
  }
  /// Of a step that is not skipped.
  TW_INLINE int team_at(int step) const {
    const int whole = (step - skip) / length, rest = step - skip - whole * length;
    int team = int(float(rest) * float(parts) / float(length - skip));  // or a neighbour
    if (inside(team) > rest) --team;
    if (inside(team + 1) <= rest) ++team;
    return whole * parts + team;
  }

 private:
  /// Where a part begins, rounded down, in 32 bits.
  TW_INLINE int inside(int part) const {
    const int each = (length - skip) / parts, more = length - skip - each * parts;
    return part * each + part * more / parts;
  }
};

/// What is to be shared. A unit is what a team works on at a time: a tile for each member. It has
/// kEnds steps, which are as long as its start and its end, then those of its blocks of keys.
struct AttentionLineSize {
  static constexpr int kEnds = 1;

  int steps;
  int unit_steps;  // of every unit; 0: they differ, or nobody knows

  /// Equal parts; where all units are equal, whole ones or the same parts of each, if the longest
  /// share then has at most `slack` more steps. Whoever has any has `least` or more.
  TW_INLINE AttentionShare share(int all_teams, int least, int slack) const {
    int teams = steps / least < all_teams ? steps / least : all_teams;
    if (teams == 0) teams = 1;
    const AttentionShare even{steps, 0, teams};
    if (unit_steps == 0) return even;
    const int units = steps / unit_steps, whole = (units + teams - 1) / teams;
    const int parts = teams / units > 1 ? teams / units : 1;
    const AttentionShare alike{whole * unit_steps, parts > 1 ? kEnds : 0, parts};
    const int most = (steps + teams - 1) / teams + slack;
    return (alike.length + parts - 1) / parts <= most ? alike : even;
  }
};

/// The order of a launch's tiles: those of a head follow each other, so that its keys stay in L2.
struct AttentionOrder {
  int tiles;  // of the queries of a sequence; of variable ones, at most, of all of them
  int heads;  // counted in packs
  int batches;
  /// Tile i and the i-th from the end are one item: under a causal mask all items are equally long.
  bool folded;

  // Where blocks of threads take parts of tiles (AttentionLine):
  AttentionTeam team;
  int teams;               // 0: they take whole ones (AttentionWalk)
  int units;               // of the heads of a tile of queries
  int groups;              // of tiles of queries that a team takes at a time; 0: sequences differ
  int step;                // blocks of keys that stay together, a power of two
  int least, slack;        // as AttentionLineSize has them
  AttentionLineSize line;  // no steps: it depends on what only the device knows
  AttentionShare share;    // of that line

  TW_INLINE int folded_tiles() const { return folded ? (tiles + 1) / 2 : tiles; }
  TW_INLINE int64_t items() const { return int64_t{folded_tiles()} * heads * batches; }
};

/// Of 32 blocks of keys, a bit each.
struct AttentionSeenWord {
  uint32_t seen;  // whether a mask lets any query of a tile see any of the block's keys
  uint32_t cut;   // and hides any from any
};

/// What a mask_mod leaves of the keys that tiles of queries see otherwise.
struct AttentionSeen {
  AttentionSeenWord* words;  // [sequences or 1][tiles][heads or 1][words_of_tile], or no data
  int words_of_tile;
  int heads;         // counted in packs; 1: all see the same keys
  bool by_sequence;  // whether sequences differ

  /// Those of tile `tile` of the sequence that begins at query q_base; of variable ones, which end
  /// in the middle of a tile each, the tiles of all are counted.
  TW_INLINE AttentionSeenWord* at(const AttentionOrder& order, bool varies, int queries, int batch,
                                  int q_base, int first_query, int head) const {
    const int before = varies ? q_base / queries + batch : by_sequence ? batch * order.tiles : 0;
    const int64_t row = int64_t{before + first_query / queries} * heads + (heads > 1 ? head : 0);
    return words + row * words_of_tile;
  }
};

/// The tile that a block of threads begins and others go on with: that of the same member in the
/// next team, and so on.
struct AttentionParted {
  int parts;                                      // 0: there is none
  int first_query, head, q_base, q_len, q_outer;  // as AttentionTile
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

/// What numbers of 8 bits are multiplied with, one for each key and head; one for each sequence and
/// head where queries have 8 bits, too.
struct AttentionScales {
  const float* data;                              // null: 1
  int64_t outer_stride, row_stride, head_stride;  // outer: batch entries, pages or sequences

  TW_INLINE float at(int outer, int row, int head) const {
    return data == nullptr ? 1.0f
                           : data[outer * outer_stride + row * row_stride + head * head_stride];
  }
};

template <class T>
struct AttentionArguments {
  tile::cuda::TensorMap q;     // [B, Hq / pack, S, pack, D], a box is queries x pack x 128 bytes
  tile::cuda::TensorMap k, v;  // [B or pages, H, S, D], a box is box_keys x 128 bytes
  AttentionOrder order;
  int q_heads, value_dims;
  // Of the last 128 bytes of queries' and keys', and of values' rows, the first columns that are
  // those of the 128 bytes before, too (AttentionOverlap).
  int key_overlap, value_overlap;
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
  AttentionScales q_scale, k_scale, v_scale;
  View<const T, 4> bias;                      // [sequences, Hq, queries, keys], or no data
  View<const float, 1> slopes;                // [Hq], or no data
  ScoreNumbers numbers;                       // of programs, which are compiled into the kernel
  AttentionSeen seen;                         // by such a mask
  AttentionRows<attention_output_t<T>> rows;  // out; rows begin at multiples of 16 bytes
  AttentionRows<float> lse;                   // or no data
  // Of tiles in parts. A block of threads has two slots: for what goes on from the block before,
  // and for what it begins.
  float* partials;          // [2 blocks][part_rows][value_dims]
  float* partial_lse;       // [2 blocks][part_rows]
  AttentionParted* parted;  // [blocks]
  int part_rows;            // of a tile that exist

  /// Whether scores are changed before softmax: by a kernel that is compiled for it.
  TW_INLINE bool changes_scores() const { return bias || slopes; }
  /// Whether what follows the last key of a sequence is memory of others.
  TW_INLINE bool shares_memory() const { return kv_offsets || kv_lens; }
};

/// A box has 128 bytes of each row, and TMA reads all of them, if a head has fewer: those of the
/// next head, which another block of threads reads at another time. Where memory bounds a kernel,
/// the last box of a row ends where the head does, instead.
struct AttentionOverlap {
  /// Whether a build can have that.
  TW_INLINE static constexpr bool exists(const AttentionBuild& build) {
    return build.parts() && build.loaded_bytes() == 2;
  }
  /// Columns of 16 bits, multiples of `unit`, for rows of `dims` in boxes for `most`.
  static constexpr int columns(int dims, int most, int unit) {
    constexpr int kOfBox = 64;
    const int last = (most - 1) / kOfBox * kOfBox;
    const bool ends_in_box = last > 0 && dims > last && dims < last + kOfBox;
    return ends_in_box && dims % unit == 0 ? last + kOfBox - dims : 0;
  }
};

inline constexpr int kAttentionLeastBox = 8;  // keys: a box begins where the swizzle repeats

// ---- the sum over parts

inline constexpr int kAttentionCombineThreads = 128;
inline constexpr int kAttentionCombineColumns = 128;  // of a row, that a warp has
inline constexpr int kAttentionCombineResident = 6;   // blocks of a multiprocessor
inline constexpr int kAttentionMostBlocks = 256;      // that take parts of tiles

// ---- what a mask leaves

inline constexpr int kAttentionSeenBlocks = 8;  // of keys, that a block of threads looks at
inline constexpr int kAttentionSeenThreads = 32 * kAttentionSeenBlocks;

}  // namespace tw::kernels

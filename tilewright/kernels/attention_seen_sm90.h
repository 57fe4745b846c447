// Blocks of keys that a mask_mod hides wholly are not loaded. Before attention runs, a kernel
// evaluates the mask once and writes down, for each tile of queries and each block of keys, whether
// any pair is seen and whether any is hidden: FlexAttention's block mask (arXiv:2412.05496), which
// callers make there.
#pragma once

#include "tilewright/kernels/attention_tiles_sm90.h"
#include "tilewright/kernels/printed_mods.h"

namespace tw::kernels {

/// The queries of a tile.
template <class Arguments>
TW_PTX int attention_tile_queries(const Arguments& given, const AttentionBuild& build) {
  return build.consumers * (build.rows() / given.pack);
}
template <AttentionBuild kBuild, class Arguments>
TW_PTX AttentionSeenWord* seen_words(const Arguments& given, const AttentionTile& tile) {
  return given.seen.at(given.order, bool(given.q_offsets), attention_tile_queries(given, kBuild),
                       tile.batch, tile.q_base, tile.first_query, tile.head);
}

/// The blocks of keys of a tile, from the last to the first.
template <AttentionBuild kBuild>
class AttentionBlocks {
 public:
  template <class Arguments>
  TW_PTX AttentionBlocks(const Arguments&, const AttentionTile& tile)
      : block_(tile.last_block - 1), first_(tile.first_block) {}

  TW_PTX bool done() const { return block_ < first_; }
  TW_PTX AttentionMark here() const { return {block_, true}; }
  TW_PTX void next() { --block_; }

 private:
  int block_, first_;
};

/// Those that are seen: the first and the last of a trimmed tile are.
template <AttentionBuild kBuild>
  requires(kBuild.skips)
class AttentionBlocks<kBuild> {
 public:
  template <class Arguments>
  TW_PTX AttentionBlocks(const Arguments& given, const AttentionTile& tile)
      : words_(seen_words<kBuild>(given, tile)),
        block_(tile.last_block - 1),
        first_(tile.first_block),
        word_(words_[block_ / 32]) {}

  TW_PTX bool done() const { return block_ < first_; }
  TW_PTX AttentionMark here() const { return {block_, (word_.cut >> block_ % 32 & 1) != 0}; }
  TW_PTX void next() {
    if (block_ == first_) {
      --block_;
      return;
    }
    int at = block_ / 32;
    uint32_t before = word_.seen & ((1u << block_ % 32) - 1);
    while (before == 0) {
      word_ = words_[--at];
      before = word_.seen;
    }
    block_ = at * 32 + 31 - __clz(int(before));
  }

 private:
  const AttentionSeenWord* words_;
  int block_, first_;
  AttentionSeenWord word_;
};

/// A walk over tiles, or parts of tiles, of whose blocks those that are not seen are left out at
/// both ends. Whole warps walk.
template <AttentionBuild kBuild, class Walk>
struct AttentionTrimmed {
  Walk walk;

  template <class Arguments>
  TW_PTX bool next(const Arguments& given, int queries, int keys, AttentionTile& tile) {
    const bool more = walk.next(given, queries, keys, tile);
    if (more && !tile.empty()) trim(seen_words<kBuild>(given, tile), tile);
    return more;
  }
  template <class Arguments>
  TW_PTX void leave(const Arguments& given, const AttentionTile& tile) {
    walk.leave(given, tile);
  }

 private:
  TW_PTX static void trim(const AttentionSeenWord* words, AttentionTile& tile) {
    int first = tile.last_block, last = tile.first_block;
    for (int at = tile.first_block / 32 + int(threadIdx.x) % 32; at * 32 < tile.last_block;
         at += 32) {
      uint32_t seen = words[at].seen;
      const int start = at * 32, skipped = tile.first_block - start, rest = tile.last_block - start;
      if (skipped > 0) seen &= ~0u << skipped;
      if (rest < 32) seen &= (1u << rest) - 1;
      if (seen == 0) continue;
      first = min(first, start + __ffs(int(seen)) - 1);
      last = max(last, start + 32 - __clz(int(seen)));
    }
    __syncwarp();
    tile.first_block = __reduce_min_sync(0xffffffffu, first);
    tile.last_block = __reduce_max_sync(0xffffffffu, last);
  }
};

/// Finds what is seen. A block of threads has eight blocks of keys of a tile of queries at a time,
/// a byte of a word: a warp has a block of keys, a lane every 32nd key of it.
template <class T, AttentionBuild kBuild>
struct AttentionFindSeen {
  static constexpr int kKeys = kBuild.keys, kEach = (kKeys + 31) / 32;  // of a lane
  static constexpr int kRound = 8;                                      // queries

  const AttentionArguments<T>& given;

  TW_PTX void operator()(AttentionSeenWord& found) const {
    const int queries = attention_tile_queries(given, kBuild), warp = int(threadIdx.x) / 32;
    const int block = int(blockIdx.y) * kAttentionSeenBlocks + warp;
    AttentionWalk walk(given.order);
    for (AttentionTile tile; walk.next(given, queries, kKeys, tile);) {
      if (threadIdx.x == 0) found = {0, 0};
      __syncthreads();
      if (block >= tile.first_block && block < tile.last_block) {
        const int begin = block * kKeys;
        const bool whole =
            kKeys % 32 == 0 && begin >= tile.inner_begin && begin + kKeys <= tile.inner_end;
        const Found of_block =
            whole ? look<true>(tile, queries, begin) : look<false>(tile, queries, begin);
        if (int(threadIdx.x) % 32 == 0) {
          atomicOr(&found.seen, uint32_t(of_block.seen) << warp);
          atomicOr(&found.cut, uint32_t(of_block.cut) << warp);
        }
      }
      __syncthreads();
      if (threadIdx.x == 0) put(found, tile);
    }
  }

 private:
  using Key = PrintedMask::Key;

  struct Found {
    bool seen = false, cut = false;
  };

  TW_PTX void put(const AttentionSeenWord& found, const AttentionTile& tile) const {
    constexpr int kParts = 32 / kAttentionSeenBlocks;
    const int part = int(blockIdx.y) % kParts;
    AttentionSeenWord& to = seen_words<kBuild>(given, tile)[int(blockIdx.y) / kParts];
    reinterpret_cast<uint8_t*>(&to.seen)[part] = uint8_t(found.seen);
    reinterpret_cast<uint8_t*>(&to.cut)[part] = uint8_t(found.cut);
  }

  /// Among the pairs that causality and windows leave, of the keys from `begin` on; kWhole: all.
  template <bool kWhole>
  TW_PTX Found look(const AttentionTile& tile, int queries, int begin) const {
    const int first_key = begin + int(threadIdx.x) % 32;
    const int end = min(tile.first_query + queries, tile.q_len);
    const int heads = given.seen.heads > 1 ? given.pack : 1;
    ScoreAt at{tile.batch, tile.head * heads, 0, 0, tile.q_len, tile.kv_len};
    Key keys[kEach];
    TW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      at.key = first_key + 32 * i;
      keys[i] = PrintedMask::key(at, given.numbers);
    }
    Found found;
    for (int head = 0; head < heads; ++head, ++at.head)
      for (int query = tile.first_query; query < end; query += kRound) {
        TW_UNROLL
        for (int i = 0; i < kRound; ++i) {
          at.query = min(query + i, end - 1);
          look_at<kWhole>(tile, at, begin, keys, found);
        }
        const bool seen = __any_sync(0xffffffffu, found.seen);
        found = {seen, bool(__any_sync(0xffffffffu, found.cut))};
        if (found.seen && found.cut) return found;
      }
    return found;
  }
  /// A query's pairs.
  template <bool kWhole>
  TW_PTX void look_at(const AttentionTile& tile, ScoreAt at, int begin, const Key (&keys)[kEach],
                      Found& found) const {
    AttentionSpan span{};
    if (!kWhole) {
      span = tile.seen(given, at.query);
      span.end = min(span.end, begin + kKeys);
    }
    const auto row = PrintedMask::row(at, given.numbers);
    TW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      at.key = begin + int(threadIdx.x) % 32 + 32 * i;
      const bool exists = kWhole || (at.key >= span.begin && at.key < span.end);
      const bool sees = PrintedMask::value(0, row, keys[i], at, given.numbers);
      found.seen |= exists && sees;
      found.cut |= exists && !sees;
    }
  }
};

}  // namespace tw::kernels

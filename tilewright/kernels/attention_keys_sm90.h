// Where the blocks of keys of a tile lie in memory, from the last to the first.
#pragma once

#include "tilewright/kernels/attention_seen_sm90.h"

namespace tw::kernels {

struct AttentionKeyBlock {
  int boxes;  // that hold keys of the sequence
  int keys;   // of the sequence; fewer than a block's at its end
  int row;    // of the first key, within its batch entry or page
  int head;
  int outer;  // the batch entry, or the page of the lane's box
  AttentionMark mark;
};

/// Where block `block` lies, and where in the table the page of the lane's box is.
template <int kKeys, class Arguments>
TW_PTX const int32_t* find_key_block(const Arguments& given, const AttentionTile& tile, int block,
                                     AttentionKeyBlock& out) {
  const int first = block * kKeys, keys = min(tile.kv_len - first, kKeys);
  out = {1, keys, tile.kv_base + first, tile.head / given.heads_per_kv, tile.kv_outer, {}};
  if (!given.table) return nullptr;
  const int lane = int(threadIdx.x) % 32, page = given.page_keys;
  out.boxes = (keys + given.box_keys - 1) / given.box_keys;
  out.row = first % page;
  const int32_t* const entry = given.table.data + tile.batch * given.table.stride(0) +
                               (first / page + lane) * given.table.stride(1);
  out.outer = lane < out.boxes ? *entry : 0;
  return entry;
}

/// Walked by a warp. What is the same for all blocks is worked out once: a step back is a few
/// additions, since instructions of this warp wait for those of the consumers.
template <class Arguments, AttentionBuild kBuild>
class AttentionKeys {
 public:
  TW_PTX AttentionKeys(const Arguments& given, const AttentionTile& tile)
      : given_(given), left_(tile.last_block - tile.first_block) {
    entry_ = find_key_block<kKeys>(given, tile, tile.last_block - 1, here_);
    if (!given.table) return;
    boxes_ = kKeys / given.box_keys;
    around_ = boxes_ * given.page_keys - kKeys;
  }

  TW_PTX bool done() const { return left_ == 0; }

  /// The page of the block after it is looked up: that takes as long as to weigh a block.
  TW_PTX AttentionKeyBlock next() {
    const AttentionKeyBlock out = here_;
    here_.boxes = boxes_;
    here_.keys = kKeys;
    --left_;
    if (!given_.table || here_.row >= kKeys) {
      here_.row -= kKeys;
    } else {
      here_.row += around_;
      entry_ -= boxes_ * given_.table.stride(1);
      if (left_ > 0 && int(threadIdx.x) % 32 < boxes_) here_.outer = *entry_;
    }
    return out;
  }

 private:
  static constexpr int kKeys = kBuild.keys;

  const Arguments& given_;
  AttentionKeyBlock here_;
  int left_;
  int boxes_ = 1;         // of a whole block
  int around_ = 0;        // from a page's first block to the last of the page before
  const int32_t* entry_;  // of the lane's box
};

/// The same of blocks that a mask leaves, which may be far from each other.
template <class Arguments, AttentionBuild kBuild>
  requires(kBuild.skips)
class AttentionKeys<Arguments, kBuild> {
 public:
  TW_PTX AttentionKeys(const Arguments& given, const AttentionTile& tile)
      : given_(given), tile_(tile), blocks_(given, tile) {
    find();
  }

  TW_PTX bool done() const { return blocks_.done(); }
  /// The page of the block after it is looked up.
  TW_PTX AttentionKeyBlock next() {
    const AttentionKeyBlock out = here_;
    blocks_.next();
    if (!blocks_.done()) find();
    return out;
  }

 private:
  TW_PTX void find() {
    const AttentionMark mark = blocks_.here();
    find_key_block<kBuild.keys>(given_, tile_, mark.block, here_);
    here_.mark = mark;
  }

  const Arguments& given_;
  const AttentionTile& tile_;
  AttentionBlocks<kBuild> blocks_;
  AttentionKeyBlock here_;
};

}  // namespace tw::kernels

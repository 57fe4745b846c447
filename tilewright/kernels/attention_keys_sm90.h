// Where the blocks of keys of a tile lie in memory, from the last to the first.
#pragma once

#include "tilewright/kernels/attention_tiles_sm90.h"

namespace tw::kernels {

struct AttentionKeyBlock {
  int boxes;  // that hold keys of the sequence
  int keys;   // of the sequence; fewer than a block's at its end
  int row;    // of the first key, within its batch entry or page
  int head;
  int outer;  // the batch entry, or the page of the lane's box
};

/// Walked by a warp. What is the same for all blocks is worked out once: a step back is a few
/// additions, since instructions of this warp wait for those of the consumers.
template <class Arguments, int kKeys>
class AttentionKeys {
 public:
  TW_PTX AttentionKeys(const Arguments& given, const AttentionTile& tile)
      : given_(given), left_(tile.last_block - tile.first_block) {
    const int first = (tile.last_block - 1) * kKeys, keys = min(tile.kv_len - first, kKeys);
    here_ = {1, keys, tile.kv_base + first, tile.head / given.heads_per_kv, tile.kv_outer};
    if (!given.table) return;
    const int page = given.page_keys;
    boxes_ = kKeys / given.box_keys;
    around_ = boxes_ * page - kKeys;
    here_.boxes = (keys + given.box_keys - 1) / given.box_keys;
    here_.row = first % page;
    entry_ = given.table.data + tile.batch * given.table.stride(0) +
             (first / page + lane()) * given.table.stride(1);
    here_.outer = lane() < here_.boxes ? *entry_ : 0;
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
      if (left_ > 0 && lane() < boxes_) here_.outer = *entry_;
    }
    return out;
  }

 private:
  TW_PTX static int lane() { return int(threadIdx.x) % 32; }

  const Arguments& given_;
  AttentionKeyBlock here_;
  int left_;
  int boxes_ = 1;                   // of a whole block
  int around_ = 0;                  // from a page's first block to the last of the page before
  const int32_t* entry_ = nullptr;  // of the lane's box
};

}  // namespace tw::kernels

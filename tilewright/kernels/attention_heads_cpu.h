// Few rows of queries over the keys of all kv heads together, on the CPU.
//
// Where the heads of a key lie side by side, [L, H, D], a head's own keys are pages apart: walked
// head by head, nothing is read in order. So all heads meet the keys a panel at a time, then their
// values; while one panel is multiplied, the next is fetched from one end to the other. An
// element's operations are those of AttentionTile, in the same order.
#pragma once

#include "tilewright/kernels/attention_tile_cpu.h"

namespace tw::kernels::attention_detail {

/// Whether few rows of queries meet all heads of a key together.
template <class P, class U>
TW_INLINE bool heads_lie_together(const AttentionShape& shape, const KeySource<U>& k,
                                  const KeySource<U>& v, const Machine& machine) {
  const auto side_by_side = [&](const KeySource<U>& x) {
    return x.dim_stride == 1 && x.head_stride * shape.kv_heads <= x.row_stride;
  };
  // A panel of all heads, and the one that is fetched meanwhile, stay in L2.
  const int64_t bytes = kPanel<P> * shape.kv_heads * int64_t{sizeof(U)} *
                        (shape.dims > shape.value_dims ? shape.dims : shape.value_dims);
  return shape.kv_heads > 1 && side_by_side(k) && side_by_side(v) &&
         shape.value_dims % P::template kLanes<float> == 0 && 4 * bytes <= machine.l2_bytes;
}

/// The tiles of all kv heads. Their scratch memories follow each other, and share what is used up
/// at once.
template <class P, class U, class M>
struct AttentionHeads {
  using Tile = AttentionTile<P, U, M>;
  using Rows = typename Tile::Rows;

  const Tile& first;  // of head 0

  TW_INLINE int64_t heads() const { return first.shape.kv_heads; }
  TW_INLINE Tile tile(int64_t h) const {
    Tile out = first;
    out.k = first.k.head(h), out.v = first.v.head(h);
    out.k_scale = first.k_scale.head(h), out.v_scale = first.v_scale.head(h);
    out.who.kv_head = h;
    out.scratch = first.scratch + h * first.at.own;
    out.at.keys += (heads() - 1 - h) * first.at.own;
    return out;
  }

  /// Adds a block of keys to all rows of all heads: merged, or left in `partials`.
  __attribute__((noinline)) void process(P p, int64_t block, const Partials* partials) const {
    Rows group = first.open_group(block, 0, first.who.rows - 1);
    if (group.keys.empty()) return;
    if (is_hidden(p, block)) {
      for (int64_t h = 0; h < heads(); ++h) leave_nothing(partials, tile(h).who, block);
      return;
    }
    score(p, block, group);
    BlockStats* stats = nullptr;
    for (int64_t h = 0; h < heads(); ++h) {
      const Tile here = tile(h);
      here.copy_value_scales(p, block);
      here.weigh_scores(p, block, group);
      stats = here.block_stats();
      for (int64_t r = 0; r < group.rows; ++r) stats[r] = group.stats[r];
    }
    weigh(p, block, group);
    for (int64_t h = 0; h < heads(); ++h) {
      const Tile here = tile(h);
      stats = here.block_stats();
      for (int64_t r = 0; r < group.rows; ++r) group.stats[r] = stats[r];
      if (partials == nullptr)
        here.merge_tiles(p, group);
      else
        for (int64_t t = 0; t < group.tiles(); ++t)
          here.leave_tile(block, group, t, here.result(t), *partials);
    }
  }

 private:
  static constexpr int64_t kStep = kPanel<P>;  // keys

  TW_INLINE bool is_hidden(P p, int64_t block) const {
    if (first.mods.mask == nullptr) return false;
    const int64_t different = first.mods.tells_heads_apart() ? heads() : 1;
    for (int64_t h = 0; h < different; ++h)
      if (!tile(h).is_hidden(p, block)) return false;
    return true;
  }

  TW_INLINE void score(P p, int64_t block, const Rows& group) const {
    const int64_t start = block * kKeyBlock, last = group.keys.end;
    for (int64_t h = 0; first.k_scale && h < heads(); ++h) tile(h).copy_key_scales(p, block);
    const int64_t depth = first.depth(), share = kStep * M::kDepth * sizeof(U);
    for (int64_t j = group.keys.begin / kStep * kStep; j < last; j += kStep) {
      const char* const ahead =
          j + kStep < last ? run(first.k, start + j + kStep, first.shape.dims)
                           : run(first.v, start + group.keys.begin, first.shape.value_dims);
      for (int64_t h = 0; h < heads(); ++h) {
        const Tile here = tile(h);
        auto* const panel = here.units(here.at.keys);
        pack_keys<M>(p, here.k, start + j, start + (last < j + kStep ? last : j + kStep),
                     first.shape.dims, depth, panel);
        here.score_panel(
            p, group, j,
            PanelAhead<P, typename M::Unit>{{panel}, ahead + h * depth * share, share});
      }
    }
  }

  TW_INLINE void weigh(P p, int64_t block, const Rows& group) const {
    const int64_t start = block * kKeyBlock, last = group.keys.end;
    for (int64_t j = group.keys.begin; j < last;) {
      const int64_t step = j / kStep * kStep + kStep, end = step < last ? step : last;
      const char* const ahead = end < last ? run(first.v, start + end, first.shape.value_dims)
                                           : run(first.k, start + kKeyBlock, first.shape.dims);
      for (int64_t h = 0; h < heads(); ++h) {
        const Tile here = tile(h);
        const int64_t bytes = (end - j) * first.shape.value_dims * int64_t{sizeof(U)};
        for (int64_t t = 0; t < group.tiles(); ++t)
          here.weigh_piece(p, block, group, t, {j, end}, ahead + h * bytes, here.result(t));
      }
      j = end;
    }
  }

  /// Where the keys from `key` on begin, of all heads; what is fetched may be past the end.
  TW_INLINE const char* run(const KeySource<U>& of, int64_t key, int64_t dims) const {
    const bool there =
        key < first.mask.kv_len && of.head_stride == dims && of.row_stride == dims * heads();
    return reinterpret_cast<const char*>(there ? of.at(key, key + 1).data : of.at(0, 1).data);
  }
};

}  // namespace tw::kernels::attention_detail

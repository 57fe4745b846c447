// Where the rows of each expert lie: a stable counting sort of the experts' numbers, each expert's
// part as long as a multiple of block_size.
//
// On a CPU one program does it. On a GPU a program has one expert and looks for its entries, which
// follow those of the experts before: as many as there are, or, in blocks, as a phase before
// counts. Of many entries see moe_align_gpu.h.
#pragma once

#include "tilewright/kernels/moe_align_gpu.h"
#include "tilewright/tile/matches.h"

namespace tw::kernels {

struct MoeAlign {
  static constexpr int kGpuRegisters = 128;  // for the entries that are under way

  Rows<const int32_t> ids;  // [*], of experts; -1: none that is here
  int64_t experts, block_size;
  View<int32_t, 1> counts;   // [experts]
  View<int32_t, 1> offsets;  // [experts], where each expert's part ends
  View<int32_t, 1> order;    // [n + experts * (block_size - 1)]: which entry; n where there is none
  Rows<int32_t> positions;   // [*]: where in order; -1: nowhere
  /// If given, order has a row's number instead, of which so many entries are in turn; 0 for none.
  int64_t row_entries = 0;

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (!P::kOnGpu) return tile::plan_of(1);
    if (const Chunks chunks{*this}; chunks.takes()) return chunks.plan();
    tile::Plan plan = tile::plan_of(experts).over(ids.rows > 256 ? ids.rows : 256);
    if (block_size > 1) plan.phases = 2;
    plan.grid[plan.phases - 1] = experts + 1;
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if (ids.lead == 1 && positions.lead == 1) {
      const int32_t* const from = ids.data;
      int32_t* const to = positions.data;
      const int64_t step = ids.lead_strides[0], to_step = positions.lead_strides[0];
      align(
          p, [=](int64_t i) { return from[i * step]; },
          [=](int64_t i, int32_t at) { to[i * to_step] = at; });
    } else {
      align(
          p, [&](int64_t i) { return ids(i, 0); },
          [&](int64_t i, int32_t at) { positions(i, 0) = at; });
    }
  }

  TW_INLINE bool is_here(int32_t id) const { return id >= 0 && id < experts; }
  TW_INLINE int64_t padded(int32_t count) const {
    return block_size == 1 ? count : (count + block_size - 1) / block_size * block_size;
  }
  /// What order has for an entry, and for none.
  TW_INLINE int32_t told(int64_t i) const {
    return int32_t(row_entries > 0 ? index_quotient(i, row_entries) : i);
  }
  TW_INLINE int32_t nothing() const { return row_entries > 0 ? 0 : int32_t(ids.rows); }

 private:
  using Chunks = MoeAlignInChunks<MoeAlign>;

  template <class P, class Id, class Put>
  TW_INLINE void align(P p, const Id& id, const Put& put_position) const {
    if constexpr (!P::kOnGpu) {
      sort(id, put_position);
    } else {
#if defined(__CUDACC__)
      if (const Chunks chunks{*this}; chunks.takes()) return chunks.run(p, id, put_position);
#endif
      find(p, id, put_position);
    }
  }
  /// The entries of the program's expert; the last program has none, but what no expert has.
  template <class P, class Id, class Put>
  TW_INLINE void find(P p, const Id& id, const Put& put_position) const {
    const int expert = int(p.index());
    const tile::SortedPart part = tile::find_part(p, ids.rows, id, expert, int(experts));
    if (block_size > 1 && p.phase() == 0) {
      counts(expert) = part.count;
      return;
    }
    int64_t begin = part.begin, end = part.all;  // of the expert's part, and of all
    if (block_size > 1) begin = blocks_before(expert), end = blocks_before(experts);
    if (expert < experts) {
      tile::for_each_of_part(p, ids.rows, id, expert, part, [&](int64_t i, int rank) {
        order(begin + rank) = told(i);
        put_position(i, int32_t(begin + rank));
      });
      const int64_t filled = padded(part.count);
      tile::for_row(p, filled - part.count, [&](auto at) {
        for (int i = 0; i < at.count; ++i) order(begin + part.count + at.offset + i) = nothing();
      });
      if (block_size == 1) counts(expert) = part.count;
      offsets(expert) = int32_t(begin + filled);
    }
    for_share(p, order.size(0) - end, [&](int64_t i) { order(end + i) = nothing(); });
    for_share(p, ids.rows, [&](int64_t i) {
      if (!is_here(id(i))) put_position(i, -1);
    });
  }
  /// How long the parts of the experts before this one are.
  TW_INLINE int64_t blocks_before(int64_t expert) const {
    int64_t end = 0;
    for (int64_t e = 0; e < expert; ++e) end += padded(counts(e));
    return end;
  }
  /// f(i) for this program's share of [0, n).
  template <class P, class F>
  TW_INLINE void for_share(P p, int64_t n, F&& f) const {
    const int64_t share = (n + experts) / (experts + 1), first = p.index() * share;
    const int64_t rest = n - first;
    tile::for_row(p, rest < share ? rest : share, [&](auto at) {
      for (int i = 0; i < at.count; ++i) f(first + at.offset + i);
    });
  }
  template <class Id, class Put>
  TW_INLINE void sort(const Id& id, const Put& put_position) const {
    const int64_t n = ids.rows, row_length = row_entries > 0 ? row_entries : 1;
    for (int64_t e = 0; e < experts; ++e) counts(e) = 0;
    for (int64_t i = 0; i < n; ++i)
      if (is_here(id(i))) ++counts(id(i));
    int64_t end = 0;
    const auto fill_to = [&](int64_t limit) {
      for (; end < limit; ++end) order(end) = nothing();
    };
    for (int64_t e = 0; e < experts; ++e) {  // offsets are where parts begin, until all is placed
      offsets(e) = int32_t(end);
      end += counts(e);
      fill_to(offsets(e) + padded(counts(e)));
    }
    fill_to(order.size(0));
    int64_t i = 0;
    for (int64_t row = 0; i < n; ++row)  // told(i) without a division
      for (const int64_t row_end = i + row_length; i < row_end && i < n; ++i) {
        const int32_t expert = id(i);
        if (!is_here(expert)) {
          put_position(i, -1);
          continue;
        }
        const int32_t at = offsets(expert)++;
        put_position(i, at);
        order(at) = int32_t(row);
      }
    for (int64_t e = 0; e < experts; ++e)
      offsets(e) = int32_t(offsets(e) - counts(e) + padded(counts(e)));
  }
};

}  // namespace tw::kernels

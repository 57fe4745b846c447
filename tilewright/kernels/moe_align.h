// Where the rows of each expert lie: a stable counting sort of the experts' numbers, each expert's
// part as long as a multiple of block_size.
//
// On a CPU one program does it. On a GPU a program has one expert and looks for its entries, which
// follow those of the experts before: as many as there are, or, in blocks, as a phase before
// counts.
#pragma once

#include "tilewright/tile/matches.h"

namespace tw::kernels {

struct MoeAlign {
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
    tile::Plan plan = tile::plan_of(experts).over(ids.rows);
    if (block_size > 1) plan.phases = 2;
    plan.grid[plan.phases - 1] = experts + 1;
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (!P::kOnGpu) {
      sort();
    } else if (block_size > 1 && p.phase() == 0) {
      counts(p.index()) = count_of(p, int32_t(p.index()));
    } else {
      const auto [begin, all] = block_size > 1 ? parts_of_counts(p) : parts_of_entries(p);
      if (p.index() < experts) place(p, int32_t(p.index()), int32_t(begin));
      const int64_t end = all;
      for_share(p, order.size(0) - end, [&](int64_t i) { order(end + i) = nothing(); });
      for_share(p, ids.rows, [&](int64_t i) {
        if (!is_here(ids(i, 0))) positions(i, 0) = -1;
      });
    }
  }

 private:
  TW_INLINE bool is_here(int32_t id) const { return id >= 0 && id < experts; }
  TW_INLINE int64_t padded(int32_t count) const {
    return block_size == 1 ? count : (count + block_size - 1) / block_size * block_size;
  }
  /// What order has for an entry, and for none.
  TW_INLINE int32_t told(int64_t i) const {
    return int32_t(row_entries > 0 ? index_quotient(i, row_entries) : i);
  }
  TW_INLINE int32_t nothing() const { return row_entries > 0 ? 0 : int32_t(ids.rows); }
  /// look(matches) with what says whether an entry is of the expert.
  template <class F>
  TW_INLINE auto of_expert(int32_t expert, F&& look) const {
    const int32_t* const line = ids.data;
    const int64_t stride = ids.lead_strides[0];
    if (ids.lead == 1) return look([=](int64_t i) { return line[i * stride] == expert; });
    return look([&](int64_t i) { return ids(i, 0) == expert; });
  }
  template <class P>
  TW_INLINE int32_t count_of(P p, int32_t expert) const {
    return of_expert(
        expert, [&](const auto& matches) { return tile::count_matches(p, ids.rows, matches); });
  }
  /// Where the program's part of `order` begins, and where all end: sums of size(i) over the i in
  /// [0, n) for which is_before(i), and over all.
  template <class P, class Size, class Before>
  TW_INLINE auto parts(P p, int64_t n, Size&& size, Before&& is_before) const {
    using V = typename P::template Vec<int64_t>;
    return tile::sum_two<int64_t>(p, View<const int32_t, 1>{nullptr, {n}, {1}}, [&](auto at) {
      V before{}, sizes{};
      for (int i = 0; i < at.count; ++i) {
        sizes[i] = size(at.offset + i);
        before[i] = is_before(at.offset + i) ? sizes[i] : 0;
      }
      return tile::two_of(before, sizes);
    });
  }
  template <class P>
  TW_INLINE auto parts_of_counts(P p) const {
    return parts(
        p, experts, [&](int64_t e) { return padded(counts(e)); },
        [&](int64_t e) { return e < p.index(); });
  }
  template <class P>
  TW_INLINE auto parts_of_entries(P p) const {
    return parts(
        p, ids.rows, [&](int64_t i) { return int64_t(is_here(ids(i, 0))); },
        [&](int64_t i) { return ids(i, 0) < p.index(); });
  }
  /// The entries of an expert, whose part of `order` begins at `begin`.
  template <class P>
  TW_INLINE void place(P p, int32_t expert, int32_t begin) const {
    const int32_t count = of_expert(expert, [&](const auto& matches) {
      return tile::rank_matches(p, ids.rows, matches, [&](int64_t i, int rank) {
        order(begin + rank) = told(i);
        positions(i, 0) = begin + rank;
      });
    });
    const int32_t end = begin + int32_t(padded(count));
    tile::for_row(p, end - begin - count, [&](auto at) {
      for (int i = 0; i < at.count; ++i) order(begin + count + at.offset + i) = nothing();
    });
    counts(expert) = count;
    offsets(expert) = end;
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
  TW_INLINE void sort() const {
    const int64_t n = ids.rows;
    for (int64_t e = 0; e < experts; ++e) counts(e) = 0;
    for (int64_t i = 0; i < n; ++i)
      if (is_here(ids(i, 0))) ++counts(ids(i, 0));
    int64_t end = 0;
    for (int64_t e = 0; e < experts; ++e) {  // offsets are where parts begin, until all is placed
      offsets(e) = int32_t(end);
      end += padded(counts(e));
    }
    for (int64_t s = 0; s < order.size(0); ++s) order(s) = nothing();
    for (int64_t i = 0; i < n; ++i) {
      const int32_t id = ids(i, 0);
      positions(i, 0) = is_here(id) ? offsets(id)++ : -1;
      if (is_here(id)) order(positions(i, 0)) = told(i);
    }
    for (int64_t e = 0; e < experts; ++e)
      offsets(e) = int32_t(offsets(e) - counts(e) + padded(counts(e)));
  }
};

}  // namespace tw::kernels

// Where the rows of each expert lie: a stable counting sort of the experts' numbers, each expert's
// part as long as a multiple of block_size.
//
// On a CPU one program does it. On a GPU a program has one expert and looks for its entries: phase
// 0 counts them, phase 1 places them.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

struct MoeAlign {
  Rows<const int32_t> ids;  // [*], of experts; -1: none that is here
  int64_t experts, block_size;
  View<int32_t, 1> counts;   // [experts]
  View<int32_t, 1> offsets;  // [experts], where each expert's part ends
  View<int32_t, 1> order;    // [n + experts * (block_size - 1)]: which entry; n where there is none
  Rows<int32_t> positions;   // [*]: where in order; -1: nowhere

  template <tile::Program P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if constexpr (!P::kOnGpu) return tile::plan_of(1);
    tile::Plan plan = tile::plan_of(experts).over(256);
    plan.phases = 2;
    plan.grid[1] = experts + 1;
    return plan;
  }

  template <tile::Program P>
  TW_DEVICE void operator()(P p) const {
    if constexpr (!P::kOnGpu) {
      sort();
    } else if (p.phase() == 0) {
      int32_t found = 0;
      for_each_of(p, p.index(), [&](int64_t) { ++found; });
      counts(p.index()) = found;
    } else {
      int64_t begin = 0, all = 0;  // where the expert's part begins, and where all end
      for (int64_t e = 0; e < experts; ++e) {
        if (e == p.index()) begin = all;
        all += padded(counts(e));
      }
      if (p.index() < experts) place(p, p.index(), begin);
      for_share(p, order.size(0) - all, [&](int64_t i) { order(all + i) = int32_t(ids.rows); });
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
  /// The entries of an expert, whose part of `order` begins at `begin`.
  template <class P>
  TW_INLINE void place(P p, int64_t expert, int64_t begin) const {
    int64_t at = begin;
    for_each_of(p, expert, [&](int64_t i) {
      order(at) = int32_t(i);
      positions(i, 0) = int32_t(at++);
    });
    const int64_t end = begin + padded(counts(expert));
    for (; at < end; ++at) order(at) = int32_t(ids.rows);
    offsets(expert) = int32_t(end);
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
  /// f(i) for the entries of an expert, in order.
  template <class P, class F>
  TW_INLINE void for_each_of(P p, int64_t expert, F&& f) const {
    const auto its = int32_t(expert);
    if (ids.lead == 1)
      for_each_of(p, ids.data, ids.lead_strides[0], its, f);
    else
      tile::for_each_match(p, ids.rows, [&](int64_t i) { return ids(i, 0) == its; }, f);
  }
  /// Of ids on a line: eight are looked at before anyone waits for them.
  template <class P, class F>
  TW_INLINE void for_each_of(P p, const int32_t* line, int64_t stride, int32_t its, F&& f) const {
    constexpr int kAtOnce = 8;
    const int64_t n = ids.rows, groups = n / kAtOnce;
    const auto has_any = [&](int64_t group) {
      const int32_t* const here = line + group * kAtOnce * stride;
      bool any = false;
      TW_UNROLL
      for (int i = 0; i < kAtOnce; ++i) any |= here[i * stride] == its;
      return any;
    };
    tile::for_each_match(p, groups, has_any, [&](int64_t group) {
      for (int64_t i = group * kAtOnce; i < (group + 1) * kAtOnce; ++i)
        if (line[i * stride] == its) f(i);
    });
    for (int64_t i = groups * kAtOnce; i < n; ++i)
      if (line[i * stride] == its) f(i);
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
    for (int64_t s = 0; s < order.size(0); ++s) order(s) = int32_t(n);
    for (int64_t i = 0; i < n; ++i) {
      const int32_t id = ids(i, 0);
      positions(i, 0) = is_here(id) ? offsets(id)++ : -1;
      if (is_here(id)) order(positions(i, 0)) = int32_t(i);
    }
    for (int64_t e = 0; e < experts; ++e)
      offsets(e) = int32_t(offsets(e) - counts(e) + padded(counts(e)));
  }
};

}  // namespace tw::kernels

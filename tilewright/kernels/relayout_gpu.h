// The schedule of a relayout (relayout.h) on a GPU: blocks are turned in shared memory; what is not
// aligned, or has small dimensions, is gathered by the destination's words, or goes by boxes.
#pragma once

#include "tilewright/kernels/relayout_box_gpu.h"
#include "tilewright/kernels/relayout_gather_gpu.h"
#include "tilewright/kernels/relayout_turn_gpu.h"
#if !defined(__CUDACC__)
#include "tilewright/kernels/relayout_cpu.h"
#endif

namespace tw::kernels {

/// Worked out on the host: every thread uses it.
template <class P, class U>
struct RelayoutOnGpu : RelayoutCut<P, U, tile::kTurnedBlock<U>, tile::kTurnedBlock<U>> {
  using Cut = RelayoutCut<P, U, tile::kTurnedBlock<U>, tile::kTurnedBlock<U>>;
  using Cut::block_at, Cut::blocks, Cut::dims, Cut::for_rows, Cut::grid, Cut::turned;
  static constexpr int kTurnedThreads = 256;
  /// Rows of one span a thread are copied together, so that loads of all are under way at once; of
  /// few rows each has a program, which is done sooner.
  static constexpr int64_t kTogether = 4, kFewRows = 8192, kShortRow = 256;
  /// Bytes of a side below which neither a turned block nor a row is the first choice, and elements
  /// of a side below which it is not the second one either.
  static constexpr int64_t kLeastSide = 128, kLeastRow = 64, kLeastTurned = 16;
  /// Bytes of all, up to which words are gathered instead of turned, whatever the sides: of more
  /// the blocks are quicker.
  static constexpr int64_t kSmallTurned = int64_t{256} << 10;
  /// What a program has. Short rows come together, else one by one.
  enum Way { kAligned, kAny, kGroups, kTurnedWords, kTurned, kBoxes, kGathered };
  static constexpr int kGpuWays = kGathered + 1;
  Way how = kAny;
  int together = kTogether;
  int64_t groups = 0;  // of short rows, in the innermost outer dimension
  RelayoutBox<U> box;
  RelayoutGather<U> gathered;

  TW_INLINE RelayoutOnGpu(const Rows<const U>& x, const Rows<U>& out) : Cut(x, out) {
    if (Cut::rows > 0 && dims.rank > 0 && (is_small() || is_narrow(kLeastSide))) {
      gathered = RelayoutGather<U>(dims, Cut::from, Cut::to);
      if (gathered.rank == 0 && is_narrow(kLeastTurned * int64_t{sizeof(U)}))
        box = RelayoutBox<U>(dims, Cut::from, Cut::to);
    }
    if (Cut::rows <= kFewRows) together = 1;
    if (Cut::outer > 0 && Cut::rows > 0 && dims.sizes[Cut::outer] <= kShortRow)
      groups = (inner() + together - 1) / together;
    how = gathered.rank > 0    ? kGathered
          : box.rank > 0       ? kBoxes
          : turned_in_words()  ? kTurnedWords
          : turned             ? kTurned
          : groups > 0         ? kGroups
          : has_aligned_rows() ? kAligned
                               : kAny;
  }

  TW_INLINE tile::Plan plan(const Machine&) const {
    if (how == kGathered) return gathered.plan();
    if (how == kBoxes) return box.plan();
    if (how == kTurned || how == kTurnedWords)
      return tile::plan_of(blocks(), P::template kTurnedBytes<U>).over_threads(kTurnedThreads);
    if (how == kGroups)
      return tile::plan_of(Cut::rows / inner() * groups).over(dims.sizes[Cut::outer]);
    const int64_t cols = dims.rank > 0 ? dims.sizes[dims.rank - 1] : 0, width = grid.block;
    return tile::plan_of(grid.programs).over(cols < width ? cols : width);
  }

  TW_INLINE int way() const { return how; }
  template <class OnWay>
  TW_INLINE void operator()([[maybe_unused]] OnWay p) const {
#if defined(__CUDACC__)
    constexpr int kWay = OnWay::kWay;
    if constexpr (kWay == kGathered) return gathered.move(p, Cut::from, Cut::to);
    if constexpr (kWay == kBoxes) return box.move(p, Cut::from, Cut::to);
    if constexpr (kWay == kTurned || kWay == kTurnedWords) return turn < kWay == kTurnedWords > (p);
    if constexpr (kWay == kGroups) return copy_together(p);
    if constexpr (kWay == kAligned || kWay == kAny)
      for_rows(p.index(), [&](const auto& in, const auto& out) {
        const auto same = [](auto v) { return v; };
        if constexpr (kWay == kAligned)
          tile::map_aligned_row<U>(p, out, same, in);
        else
          tile::map_row<U>(p, out, same, in);
      });
#endif
  }

 private:
  /// Whether it waits for no memory, so that what it costs to begin decides.
  TW_INLINE bool is_small() const {
    if (dims.rank < 2 || dims.to[dims.rank - 1] != 1) return false;
    int64_t bytes = sizeof(U);
    for (int d = 0; d < dims.rank; ++d) bytes *= dims.sizes[d];
    return bytes <= (turned ? kSmallTurned : RelayoutGather<U>::kSmall);
  }
  /// Whether rows are short, or sides of blocks to be turned, or these are not aligned.
  TW_INLINE bool is_narrow(int64_t least_side) const {
    const int last = dims.rank - 1;
    const auto bytes = [&](int d) { return dims.sizes[d] * int64_t{sizeof(U)}; };
    if (dims.to[last] != 1) return false;
    if (!turned) return dims.from[last] != 1 || (last > 0 && bytes(last) < kLeastRow);
    auto bits =
        reinterpret_cast<uint64_t>(Cut::to);  // a block may read by elements: lines are shared
    for (int d = 0; d < last; ++d) bits |= uint64_t(dims.to[d]) * sizeof(U);
    return bits % 16 != 0 || bytes(last) < least_side || bytes(last - 1) < least_side;
  }
  TW_INLINE bool turned_in_words() const {
    if (!turned) return false;
    const int last = dims.rank - 1, unit = last - 1;
    return dims.to[last] == 1 && in_words(unit, last, dims.sizes[unit] | dims.sizes[last]);
  }
  TW_INLINE bool has_aligned_rows() const {
    if (dims.rank == 0) return false;
    const int last = dims.rank - 1;
    return dims.from[last] == 1 && dims.to[last] == 1 &&
           in_words(last, last, dims.sizes[last] | grid.block);
  }
  /// Whether both sides are whole words of 16 bytes: runs are along these dimensions of each, and
  /// of so many elements, or'ed.
  TW_INLINE bool in_words(int from_run, int to_run, int64_t elements) const {
    for (int d = 0; d < dims.rank; ++d)
      elements |= (d == from_run ? 0 : dims.from[d]) | (d == to_run ? 0 : dims.to[d]);
    return (reinterpret_cast<uint64_t>(Cut::from) | reinterpret_cast<uint64_t>(Cut::to) |
            uint64_t(elements) * sizeof(U)) %
               16 ==
           0;
  }
  TW_INLINE int64_t inner() const { return dims.sizes[Cut::outer - 1]; }

#if defined(__CUDACC__)
  TW_INLINE void copy_together(P p) const {
    const int last = Cut::outer, unit = last - 1;
    const int64_t which = index_quotient(p.index(), groups);
    const int64_t first = (p.index() - which * groups) * together, left = inner() - first;
    const int count = int(left < together ? left : together);
    int64_t source, target;
    Cut::offsets(which * inner() + first, source, target);
    const auto run = [&](const auto& in, const auto& out) {
      tile::for_row<U>(p, in.row(0), [&](auto at) {
        decltype(tile::load_raw(in.row(0), at)) raw[kTogether] = {};
        TW_UNROLL
        for (int i = 0; i < kTogether; ++i)
          if (i < count) raw[i] = tile::load_raw(in.row(i), at);
        TW_UNROLL
        for (int i = 0; i < kTogether; ++i)
          if (i < count) tile::store(p, out.row(i), at, raw[i].template widen<U>());
      });
    };
    tile::with_rows<U>(p, run, rows_at(Cut::from + source, dims.from[unit], dims.from[last]),
                       rows_at(Cut::to + target, dims.to[unit], dims.to[last]));
  }
  template <class V>
  TW_INLINE Rows<V> rows_at(V* data, int64_t row_stride, int64_t col_stride) const {
    Rows<V> out;
    out.data = data;
    out.rows = out.lead_sizes[0] = kTogether;
    out.cols = dims.sizes[Cut::outer];
    out.col_stride = col_stride;
    out.lead_strides[0] = row_stride;
    return out;
  }
#endif

#if defined(__CUDACC__)
  template <bool kInWords>
  TW_INLINE void turn(P p) const {
    const int last = dims.rank - 1, unit = last - 1;
    const auto block = block_at(p.index());
    if constexpr (kInWords)
      turn_words<kTurnedThreads>(p, block.from, dims.from[last], block.to, dims.to[unit],
                                 block.units, block.lasts);
    else
      tile::turn_block(p, block.from, dims.from[last], block.to, dims.to[unit], dims.to[last],
                       block.units, block.lasts);
  }
#endif
};

/// The schedule of P's target.
template <class P, class U>
TW_INLINE auto relayout(const Rows<const U>& x, const Rows<U>& out) {
#if !defined(__CUDACC__)
  if constexpr (!P::kOnGpu) return RelayoutOnCpu<P, U>(x, out);
#endif
  if constexpr (P::kOnGpu) return RelayoutOnGpu<P, U>(x, out);
}

}  // namespace tw::kernels

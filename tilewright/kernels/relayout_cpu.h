// The schedule of a relayout (relayout.h) on a CPU: blocks are turned over in L1 and leave it in
// whole cache lines; narrow runs are taken apart, or put together, in registers.
#pragma once

#include "tilewright/kernels/relayout.h"
#include "tilewright/tile/cpu/narrow.h"

namespace tw::kernels {

/// A turned block on the CPU: 1 KiB of each row that is read by 256 bytes of each that is written.
/// It and the next one fit a second-level cache.
template <class U>
inline constexpr int64_t kTurnedUnits = 1024 / int64_t{sizeof(U)};
template <class U>
inline constexpr int64_t kTurnedLasts = 256 / int64_t{sizeof(U)};

/// A relayout on the CPU.
template <class P, class U>
struct RelayoutOnCpu : RelayoutCut<P, U, kTurnedUnits<U>, kTurnedLasts<U>> {
  using Cut = RelayoutCut<P, U, kTurnedUnits<U>, kTurnedLasts<U>>;
  using Cut::block_at, Cut::blocks, Cut::dims, Cut::for_rows, Cut::grid, Cut::outer, Cut::turned;
  static constexpr int64_t kUnits = kTurnedUnits<U>, kLasts = kTurnedLasts<U>;
  static constexpr int64_t kGroupWork = kUnits * kLasts / 4;  // of a block: long groups
  static constexpr int64_t kLine = 64 / int64_t{sizeof(U)};
  static constexpr int64_t kPitch = kLasts + kLine;  // in scratch: spreads columns

  static constexpr int64_t kPiece = 2048 / int64_t{sizeof(U)};  // of a long run beside narrow ones

  /// Elements of a narrow run, if blocks are turned and such runs lie together on one side.
  int64_t narrow = 0;
  bool narrow_is_read = false;
  int64_t pieces = 0;  // of one index of the outer dimensions

  TW_INLINE RelayoutOnCpu(const Rows<const U>& x, const Rows<U>& out) : Cut(x, out) {
    if (turned)
      find_narrow();
    else
      follow_source();
  }

  TW_INLINE tile::Plan plan(const Machine& machine) const {
    if (!turned) return tile::plan_of(grid.programs);
    if (narrow != 0)
      return tile::plan_of(tile::row_groups<P>(Cut::rows * pieces, narrow * kPiece, machine));
    return tile::plan_of(tile::row_groups<P>(blocks(), kGroupWork, machine),
                         kLine * kPitch * int64_t{sizeof(U)});
  }

  TW_SHARED void operator()(P p) const {
    if (narrow != 0)
      turn_narrow(p);
    else if (turned)
      turn(p);
    else
      for_rows(p.index(), [&](const auto& in, const auto& out) { copy_row(p, in, out); });
  }

 private:
  TW_INLINE void find_narrow() {
    const int last = dims.rank - 1, unit = last - 1;
    if (sizeof(U) == 1 || dims.to[last] != 1) return;  // bytes are not shuffled everywhere
    const auto is_narrow = [&](int d, int64_t pitch) {
      return dims.sizes[d] <= tile::kMostNarrow && dims.sizes[d] == pitch;
    };
    narrow_is_read = is_narrow(unit, dims.from[last]);
    if (!narrow_is_read && !is_narrow(last, dims.to[unit])) return;
    narrow = dims.sizes[narrow_is_read ? unit : last];
    pieces = (dims.sizes[narrow_is_read ? last : unit] + kPiece - 1) / kPiece;
  }

  TW_INLINE void turn_narrow(P p) const {
    const int last = dims.rank - 1, unit = last - 1;
    const int64_t length = dims.sizes[narrow_is_read ? last : unit];
    const auto group = tile::row_group(p, Cut::rows * pieces, narrow * kPiece);
    for (int64_t i = group.first; i < group.last; ++i) {
      const int64_t row = index_quotient(i, pieces), begin = (i - row * pieces) * kPiece;
      const int64_t count = length - begin < kPiece ? length - begin : kPiece;
      int64_t source, target;
      Cut::offsets(row, source, target);
      const U* const read = Cut::from + source;
      U* const written = Cut::to + target;
      if (narrow_is_read)
        tile::take_apart(p, narrow, read + begin * narrow, written + begin, dims.to[unit], count);
      else
        tile::put_together(p, narrow, read + begin, dims.from[last], written + begin * narrow,
                           count);
    }
  }

  /// Rows in the order in which they are read, if they are whole lines where they are written:
  /// these may go to any places, where reading is quick only along memory.
  TW_INLINE void follow_source() {
    const auto distance = [&](int d) { return dims.from[d] < 0 ? -dims.from[d] : dims.from[d]; };
    if (dims.rank == 0 || dims.sizes[dims.rank - 1] % kLine != 0) return;
    for (int d = 1; d < outer; ++d)
      for (int i = d; i > 0 && distance(i - 1) < distance(i); --i) dims.swap(i - 1, i);
  }

  TW_INLINE static void copy_row(P p, const View<const U, 1>& in, const View<U, 1>& out) {
    if (out.stride(0) == 1 && in.stride(0) != 1)
      return tile::pack_apart(out.data, in.data, in.stride(0), in.size(0));
    const auto run = [&](const auto& source, const auto& target) {
      tile::for_row<U>(p, in.size(0),
                       [&](auto at) { tile::store(p, target, at, tile::load(source, at)); });
    };
    tile::with_rows(p, run, in, out);
  }

  /// A block line by line of its columns, while the next block is on its way. Memory is quick with
  /// long runs where it is read, and with any where it is written: a row's runs follow each other.
  TW_INLINE void turn(P p) const {
    const int last = dims.rank - 1;
    const int64_t step = dims.from[last], unit_step = dims.to[last - 1];
    const auto group = tile::row_group(p, blocks(), kGroupWork);
    U* const turned_line = p.template scratch<U>();  // [unit, last]
    for (int64_t i = group.first; i < group.last; ++i) {
      const auto block = block_at(i);
      Fetch fetch(step);
      if (i + 1 < group.last) fetch.begin(block_at(i + 1));
      for (int64_t u = 0; u < block.units; u += kLine) {
        const int64_t units = block.units - u < kLine ? block.units - u : kLine;
        U* const target = block.to + u * unit_step;
        fetch.proceed(p, u + units, block.units);
        if (dims.sizes[last] <= kLine && dims.to[last] == 1) {  // short runs follow each other
          tile::transpose_block(p, block.from + u, step, target, unit_step, units, block.lasts);
          continue;
        }
        tile::transpose_block(p, block.from + u, step, turned_line, kPitch, units, block.lasts);
        write_units(p, turned_line, target, units, block.lasts);
      }
    }
  }

  /// Brings a block into the second-level cache, its rows one after the other.
  struct Fetch {
    int64_t step, lines = 0, all = 0, row = 0, line = 0, done = 0;
    const U* from = nullptr;

    TW_INLINE explicit Fetch(int64_t row_step) : step(row_step) {}
    TW_INLINE void begin(const typename Cut::Block& block) {
      from = block.from;
      lines = (block.units + kLine - 1) / kLine;
      all = lines * block.lasts;
    }
    /// So much of it as `part` is of `whole`.
    TW_INLINE void proceed(P p, int64_t part, int64_t whole) {
      for (const int64_t due = all * part / whole; done < due; ++done) {
        tile::prefetch(p, View<const U, 1>{from + row * step + line * kLine, {kLine}, {1}});
        if (++line == lines) line = 0, ++row;
      }
    }
  };

  TW_INLINE void write_units(P p, const U* turned_line, U* first, int64_t units,
                             int64_t lasts) const {
    Rows<const U> in = rows(turned_line, units, lasts);
    Rows<U> out = rows(first, units, lasts);
    in.lead_strides[0] = kPitch;
    out.lead_strides[0] = dims.to[dims.rank - 2];
    out.col_stride = dims.to[dims.rank - 1];
    const auto run = [&](const auto& source, const auto& target) TW_INLINED {
      for (int64_t u = 0; u < units; ++u) {
        const auto read = source.row(u);
        const auto written = target.row(u);
        tile::for_row<U, 4>(p, lasts, [&](auto at) TW_INLINED {
          tile::store(p, written, at, tile::load(read, at));
        });
      }
    };
    tile::with_rows(p, run, in, out);
  }
};

}  // namespace tw::kernels

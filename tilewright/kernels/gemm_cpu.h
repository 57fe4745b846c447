// The matrix multiplication skeleton on the CPU, for every shape.
//
//   out[m, n] = epilogue(sum over k of a[m, k] * b[n, k])   sums are float32, of bytes 32-bit
//   integers
//
// A task owns a block of rows and a range of panels (kPanelWidth columns each). For each block of k
// it takes its rows of a, packed and widened once, and walks its panels: a panel that is not ready
// to be multiplied is packed into L1 just before all row tiles of the task pass over it, or in a
// phase before all tasks. The epilogue sees each tile when its last product is in, while it is in
// L1. Few rows of a multiply b as it lies.
//
// A Problem tells what to multiply:
//     int64_t batch, m, n, k
//     Rows<const T> a(batch)          [m, k]
//     Panels b(batch)                 [n, k], see gemm_panels_cpu.h
//     epilogue(batch)                 a tile::TileEpilogue
// One whose matrices differ in size says of each (m and k being the largest):
//     differ()                        whether any do
//     rows(batch), depth(batch)       its own m and k
//     rows_before(batch), all_rows()  how many rows of a those before have, and all
//     occupied()                      how many have any
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/kernels/gemm.h"
#include "tilewright/kernels/gemm_inner_cpu.h"
#include "tilewright/kernels/gemm_panels_cpu.h"
#include "tilewright/tile/cpu/epilogue.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels {

static_assert(GemmSchedule::kPanel == tile::kPanelWidth);

namespace gemm_detail {

/// One multiplication under one schedule. Copied into every task: only views and sizes.
template <class Inner, class P, GemmProblem Problem>
struct Gemm {
  using B = typename Problem::Panels;
  using T = typename B::Element;
  using Units = typename Inner::Units;
  using Unit = typename Units::Unit;
  using Scratch = typename Inner::Scratch;
  using Sum = tile::sum_t<Scratch>;
  static constexpr int64_t kDepth = Units::kDepth, kStep = Inner::kStep;
  static constexpr int64_t kMostRows = Inner::template kTileRows<P>, kPanel = GemmSchedule::kPanel;
  static constexpr bool kReadsAcross =
      Inner::kReadsAcross && requires(const B b) { b.side_by_side(); };
  static constexpr int kLanes = P::template kLanes<float>;

  const Problem& problem;
  GemmSizes<Problem> sizes;
  GemmSchedule s;
  bool ready;           // b is multiplied as it lies
  bool across = false;  // and so are its columns that lie side by side

  Gemm(const Problem& what, const Machine& machine, double gflops) : problem(what), sizes{what} {
    if constexpr (B::kPacked)
      ready = what.m < Inner::template kWidenRows<P>;
    else
      ready = Inner::kReadsRows && what.m <= B::template kRowsAtOnce<P> && !b_across();
    if constexpr (kReadsAcross) across = what.m <= kMostRows && what.b(0).side_by_side();
    const GemmShape shape{.batch = sizes.occupied(),
                          .m = what.m,
                          .n = what.n,
                          .k = what.k > 0 ? what.k : 1,
                          .panels_ready = ready || across,
                          .b_bytes = sizeof(T),
                          .packed_bytes = int64_t{sizeof(Unit)} / kDepth,
                          .gflops = gflops,
                          .max_tile_rows = kMostRows,
                          .live_rows = Inner::kWholeTiles ? kMostRows + kPanel : 2 * kLanes,
                          .may_share_b = !B::kPacked && !ready && !across && !sizes.differ(),
                          .b_across = b_across() && !across,
                          .k_unit = gemm_detail::at_least(32, kStep)};
    s = schedule_gemm(shape, machine);
  }

  static int64_t units(int64_t k) { return (k + kStep - 1) / kStep * (kStep / kDepth); }
  static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  /// A single row of float32 in order needs no packing.
  bool direct_a(const Rows<const T>& a) const {
    if constexpr (sizeof(T) == sizeof(Unit)) return problem.m == 1 && a.col_stride == 1;
    return false;
  }

  /// Whether b's columns lie side by side, so that a panel has a piece of each of its rows.
  bool b_across() const {
    if constexpr (!B::kPacked) return problem.b(0).across();
    return false;
  }

  // ---- memory ----------------------------------------------------------------------------
  /// As how many rows of a so many are packed: as whole row tiles where the instruction wants them.
  int64_t stored(int64_t rows) const {
    return Inner::kWholeTiles ? (rows + s.tile_rows - 1) / s.tile_rows * s.tile_rows : rows;
  }
  /// No fewer than `matrices` matrices of so many rows together are packed as.
  int64_t stored(int64_t matrices, int64_t rows) const {
    return rows + (Inner::kWholeTiles ? matrices * (s.tile_rows - 1) : 0);
  }
  /// Where the packed rows of a matrix begin.
  int64_t shared_a_units(int64_t batch) const {
    return stored(batch, sizes.rows_before(batch)) * units(problem.k);
  }
  int64_t own_a_bytes() const {
    const int64_t depth = units(s.k_innermost ? problem.k : s.k_block);
    return s.share_a ? 0 : padded(s.block_rows * depth * int64_t{sizeof(Unit)});
  }
  int64_t panel_bytes() const {
    if (ready || across || s.share_b) return 0;
    return padded(s.group_panels * units(s.k_block) * kPanel * int64_t{sizeof(Unit)});
  }
  int64_t tile_bytes() const {
    int64_t tiles_rows = s.tile_rows * (across ? s.block_panels : 1);
    if (s.k_blocks > 1) tiles_rows = s.block_rows * (s.k_innermost ? 1 : s.block_panels);
    return padded(tiles_rows * kPanel * int64_t{sizeof(Sum)});
  }

  int64_t shared_a_bytes() const {
    const int64_t rows = s.share_a ? stored(problem.batch, sizes.all_rows()) : 0;
    return padded(rows * units(problem.k) * int64_t{sizeof(Unit)});
  }
  bool packs_first() const { return s.share_a || s.share_b; }
  int64_t pack_a_tasks() const { return s.share_a ? problem.batch * s.k_blocks * s.row_blocks : 0; }
  /// Where the packed panel j of a matrix begins.
  int64_t shared_b_units(int64_t batch, int64_t j) const {
    return (batch * gemm_detail::blocks(problem.n, kPanel) + j) * units(problem.k) * kPanel;
  }
  Unit* shared_b(P p) const {
    return reinterpret_cast<Unit*>(p.template workspace<char>() + shared_a_bytes());
  }

  tile::Plan plan() const {
    tile::Plan out;
    out.phases = packs_first() ? 2 : 1;
    out.grid[0] = pack_a_tasks();
    if (s.share_b) out.grid[0] += problem.batch * s.k_blocks * s.panel_blocks;
    out.grid[out.phases - 1] = s.tasks(problem.batch);
    out.workspace_bytes = shared_a_bytes();
    if (s.share_b) out.workspace_bytes += shared_b_units(problem.batch, 0) * int64_t{sizeof(Unit)};
    out.scratch_bytes = own_a_bytes() + panel_bytes() + tile_bytes();
    return out;
  }

  // ---- packing ---------------------------------------------------------------------------
  /// Rows [row, row + count) of a, k values from `first` on, as row tiles one after the other.
  void pack_a(P p, const Rows<const T>& a, int64_t row, int64_t count, int64_t first, int64_t k,
              Unit* to) const {
    for (int64_t r = 0; r < count; r += s.tile_rows) {
      const int64_t valid = gemm_detail::at_most(s.tile_rows, count - r);
      Unit* end = to + units(k) * stored(valid);
      Inner::pack_rows(p, a, row + r, valid, int(s.tile_rows), first, k, to, end);
      to = end;
    }
  }

  /// The panel of columns from `column` on, k values from `first` on.
  void pack_panel(P p, const B& b, int64_t column, int64_t first, int64_t k, Unit* to) const {
    if constexpr (B::kPacked) {
      const T* from = b.data + column / kPanel * b.stride + first * kPanel;
      if constexpr (sizeof(T) == sizeof(Unit))
        (void)from;  // float32 panels are always ready
      else if constexpr (kDepth == 1 && Inner::Ready::kDepth == 1)
        tile::widen(p, from, k * kPanel, to);
      else if constexpr (kDepth == 1)
        tile::widen_pairs(p, from, k, kPanel, to);
    } else {
      b.template pack<Units>(p, column, first, k, s.k_innermost ? s.k_block : 0, to);
    }
  }

  /// Panels [panel, last), for k values [first, end), each panel `stride` units after the one
  /// before. A few k at a time, so that rows of b whose columns lie side by side are read from one
  /// end to the other.
  void pack_panels(P p, const B& b, int64_t panel, int64_t last, int64_t first, int64_t end,
                   Unit* to, int64_t stride) const {
    constexpr int64_t kRowsAtOnce = kStep > 8 ? kStep : 8;
    const int64_t step = b_across() ? kRowsAtOnce : s.k_block;
    for (int64_t k = first; k < end; k += step)
      for (int64_t j = panel; j < last; ++j)
        pack_panel(p, b, j * kPanel, k, gemm_detail::at_most(step, end - k),
                   to + (j - panel) * stride + units(k - first) * kPanel);
  }

  // ---- phases ----------------------------------------------------------------------------
  /// The panels of a block, for a block of k.
  __attribute__((noinline)) void pack_b_task(P p) const {
    const int64_t index = p.index() - pack_a_tasks(), k_at = index % s.k_blocks;
    const int64_t panel_block = index / s.k_blocks % s.panel_blocks;
    const int64_t batch = index / s.k_blocks / s.panel_blocks;
    const int64_t begin = k_at * s.k_block;
    const int64_t end = gemm_detail::at_most(begin + s.k_block, problem.k);
    const int64_t first_panel = panel_block * s.block_panels;
    const int64_t last_panel =
        gemm_detail::at_most(first_panel + s.block_panels, gemm_detail::blocks(problem.n, kPanel));
    pack_panels(p, problem.b(batch), first_panel, last_panel, begin, end,
                shared_b(p) + shared_b_units(batch, first_panel) + units(begin) * kPanel,
                units(problem.k) * kPanel);
  }

  __attribute__((noinline)) void pack_a_task(P p) const {
    const int64_t index = p.index(), row_block = index % s.row_blocks;
    const int64_t k_at = index / s.row_blocks % s.k_blocks;
    const int64_t batch = index / s.row_blocks / s.k_blocks;
    const int64_t row = row_block * s.block_rows, first = k_at * s.k_block;
    const int64_t rows = sizes.rows(batch), depth = sizes.depth(batch);
    if (row >= rows || first >= depth) return;
    const int64_t count = gemm_detail::at_most(s.block_rows, rows - row);
    const int64_t k = gemm_detail::at_most(s.k_block, depth - first);
    Unit* to = p.template workspace<Unit>() + shared_a_units(batch);
    pack_a(p, problem.a(batch), row, count, first, k,
           to + units(first) * stored(rows) + row * units(k));
  }

  __attribute__((noinline)) void multiply_task(P p) const {
    const int64_t index = p.index(), row_block = index % s.row_blocks;
    const int64_t panel_block = index / s.row_blocks % s.panel_blocks;
    const int64_t batch = index / s.row_blocks / s.panel_blocks;
    if (row_block * s.block_rows >= sizes.rows(batch)) return;
    Task task{*this, problem.a(batch), problem.b(batch)};
    task.all_rows = sizes.rows(batch);
    task.depth = sizes.depth(batch);
    task.row = row_block * s.block_rows;
    task.rows = gemm_detail::at_most(s.block_rows, task.all_rows - task.row);
    char* scratch = p.template scratch<char>();
    task.own_a = reinterpret_cast<Unit*>(scratch);
    task.panel = reinterpret_cast<Unit*>(scratch + own_a_bytes());
    task.tiles = reinterpret_cast<Sum*>(scratch + own_a_bytes() + panel_bytes());
    task.shared_a = p.template workspace<Unit>() + shared_a_units(batch);
    task.shared_b = shared_b(p) + shared_b_units(batch, 0);
    if (!s.share_a && s.k_innermost && !direct_a(task.a)) {
      for (int64_t first = 0; first < task.depth; first += s.k_block)
        pack_a(p, task.a, task.row, task.rows, first,
               gemm_detail::at_most(s.k_block, task.depth - first),
               task.own_a + units(first) * stored(task.rows));
    }
    const typename Inner::Scope scope(s.tile_rows);
    const auto epilogue = problem.epilogue(batch);
    const int64_t first_panel = panel_block * s.block_panels;
    task.last_panel =
        gemm_detail::at_most(first_panel + s.block_panels, gemm_detail::blocks(problem.n, kPanel));
    if constexpr (kReadsAcross)
      if (across) return task.multiply_across(p, first_panel, epilogue);
    if (s.k_innermost) {
      for (int64_t j = first_panel; j < task.last_panel; ++j)
        for (int64_t i = 0; i < task.k_blocks(); ++i)
          task.multiply(p, i, j, j - first_panel, epilogue);
    } else {
      for (int64_t i = 0; i < task.k_blocks(); ++i)
        for (int64_t j = first_panel; j < task.last_panel; ++j)
          task.multiply(p, i, j, j - first_panel, epilogue);
    }
  }

  struct Task {
    const Gemm& gemm;
    Rows<const T> a;
    B b;
    int64_t all_rows = 0, depth = 0;  // of its matrices
    int64_t row = 0, rows = 0;
    Unit *own_a = nullptr, *panel = nullptr;
    Sum* tiles = nullptr;
    const Unit* shared_a = nullptr;
    const Unit* shared_b = nullptr;
    int64_t last_panel = 0;
    int64_t packed_block = -1;  // the block of k that own_a holds

    /// At least one, so that empty sums are written.
    int64_t k_blocks() const { return at_least(1, blocks(depth, gemm.s.k_block)); }

    /// The task's rows for one block of k, packed.
    const Unit* rows_of_a(P p, int64_t block, int64_t first, int64_t k) {
      if (gemm.direct_a(a)) return reinterpret_cast<const Unit*>(a.row(row).data) + first;
      if (gemm.s.share_a) return shared_a + units(first) * gemm.stored(all_rows) + row * units(k);
      if (gemm.s.k_innermost) return own_a + units(first) * gemm.stored(rows);
      if (packed_block != block) gemm.pack_a(p, a, row, rows, first, k, own_a);
      packed_block = block;
      return own_a;
    }

    /// Panel j, the task's own `nth`, for one block of k, packed.
    const Unit* columns_of_b(P p, int64_t j, int64_t nth, int64_t first, int64_t k) {
      if (gemm.s.share_b) return shared_b + (j * units(gemm.problem.k) + units(first)) * kPanel;
      if (gemm.s.group_panels == 1) {
        gemm.pack_panel(p, b, j * kPanel, first, k, panel);
        return panel;
      }
      const int64_t stride = units(gemm.s.k_block) * kPanel, in_group = nth % gemm.s.group_panels;
      if (in_group == 0)
        gemm.pack_panels(p, b, j, gemm_detail::at_most(j + gemm.s.group_panels, last_panel), first,
                         first + k, panel, stride);
      return panel + in_group * stride;
    }

    /// All of the task, where few rows of a multiply b's rows as they lie.
    template <tile::TileEpilogue<P, Sum> Epilogue>
    void multiply_across(P p, int64_t first_panel, const Epilogue& epilogue) {
      const int64_t first = first_panel * kPanel;
      const int64_t end = at_most(last_panel * kPanel, gemm.problem.n);
      b.template multiply_across<Units>(p, int(rows), rows_of_a(p, 0, 0, depth), first, end - first,
                                        depth, tiles);
      for (int64_t column = first; column < end; column += kPanel)
        epilogue(p, tiles + (column - first) * rows, row, int(rows), column,
                 gemm_detail::at_most(kPanel, end - column));
    }

    /// All tiles of the task in panel j, its own `nth`, for one block of k.
    template <tile::TileEpilogue<P, Sum> Epilogue>
    void multiply(P p, int64_t block, int64_t j, int64_t nth, const Epilogue& epilogue) {
      const GemmSchedule& plan = gemm.s;
      const int64_t first = block * plan.k_block, column = j * kPanel;
      const int64_t slot = plan.k_innermost ? 0 : nth;  // where the panel's sums are kept
      const int64_t k = gemm_detail::at_most(plan.k_block, depth - first);
      const int64_t columns = gemm_detail::at_most(kPanel, gemm.problem.n - column);
      const Unit* packed = rows_of_a(p, block, first, k);
      const Unit* panel_units = gemm.ready ? nullptr : columns_of_b(p, j, nth, first, k);
      // What is needed next: the next panel, or the next block of k of this one.
      const char *ahead = nullptr, *ahead_end = nullptr;
      const auto ask_for = [&](const auto* next, int64_t count) {
        ahead = reinterpret_cast<const char*>(next);
        ahead_end = reinterpret_cast<const char*>(next + count);
      };
      if constexpr (B::kPacked)
        ask_for(b.data + j * b.stride + first * kPanel + (plan.k_innermost ? k * kPanel : b.stride),
                k * kPanel);
      else if (plan.share_b)
        ask_for(panel_units + units(plan.k_innermost ? k : gemm.problem.k) * kPanel,
                units(k) * kPanel);
      [[maybe_unused]] alignas(64) Sum starts[kPanel];  // of the panel's sums
      for (int64_t r = 0; r < rows; r += plan.tile_rows) {
        const int count = int(gemm_detail::at_most(plan.tile_rows, rows - r));
        const int height = int(gemm.stored(count));
        Sum* tile = tiles + (plan.k_blocks > 1 ? (slot * plan.block_rows + r) * kPanel : 0);
        const bool is_last = block == k_blocks() - 1;
        if (is_last) epilogue.prefetch(p, row + r, count, column, columns);
        if (ahead >= ahead_end) {  // nothing more
          ahead = reinterpret_cast<const char*>(tile);
          ahead_end = nullptr;
        }
        if (!gemm.ready) {
          const auto* from = reinterpret_cast<const typename Scratch::Element*>(panel_units);
          if constexpr (tile::kHasStarts<Scratch>)
            if (r == 0) Scratch::starts(p, from, k, starts);
          ahead = tile::mma<Scratch>(p, height, packed, from, k, tile, columns, block > 0, ahead,
                                     starts);
        } else if constexpr (B::kPacked) {
          const T* from = b.data + j * b.stride + first * kPanel;
          ahead = tile::mma<typename Inner::Ready>(p, height, packed, from, k, tile, columns,
                                                   block > 0, ahead);
        } else if constexpr (Inner::kReadsRows) {
          b.template multiply<Units>(p, count, packed, column, columns, depth, tile);
        }
        if (is_last) epilogue(p, tile, row + r, count, column, columns);
        packed += units(k) * height;
      }
    }
  };

  TW_INLINE void run(P p) const {
    if (!packs_first() || p.phase() == 1)
      multiply_task(p);
    else if (p.index() < pack_a_tasks())
      pack_a_task(p);
    else if constexpr (!B::kPacked)
      pack_b_task(p);
  }
};

/// Calls f with the Gemm of the instruction that is quicker on this machine.
template <class P, GemmProblem Problem, class F>
TW_INLINE auto with_gemm(const Problem& problem, const Machine& machine, F&& f) {
  return with_inner<P>(problem, machine, [&]<class Inner>(double gflops) {
    return f(Gemm<Inner, P, Problem>(problem, machine, gflops));
  });
}

}  // namespace gemm_detail

/// The plan of a multiplication; nothing runs where the output is empty.
template <class P, GemmProblem Problem>
TW_INLINE tile::Plan plan_gemm(const Problem& problem, const Machine& machine) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return tile::plan_of(0);
  return gemm_detail::with_gemm<P>(problem, machine, [](const auto& gemm) { return gemm.plan(); });
}

/// One program instance of plan_gemm's plan.
template <class P, GemmProblem Problem>
TW_INLINE void run_gemm(P p, const Problem& problem) {
  gemm_detail::with_gemm<P>(problem, p.machine(), [&](const auto& gemm) { gemm.run(p); });
}

}  // namespace tw::kernels

// How a matrix multiplication is cut into blocks and tasks. Neutral: sizes in, sizes out.
//
//   out[m, n] = epilogue(sum over k of a[m, k] * b[n, k])
//
// The cut changes no bit of the result (tile/cpu/mma.h), so it may depend on the machine and on the
// number of threads.
#pragma once

#include "tilewright/core/machine.h"
#include "tilewright/core/types.h"

namespace tw::kernels {

/// What to multiply, `batch` times; gemm_cpu.h says more.
template <class X>
concept GemmProblem = requires(const X x, int64_t i) {
  typename X::Panels;
  x.batch + x.m + x.n + x.k;
  x.a(i);
  x.b(i);
  x.epilogue(i);
};

/// The sizes of a Problem's matrices, which may differ.
template <class Problem>
struct GemmSizes {
  static constexpr bool kDiffer = requires(const Problem p) { p.differ(); };
  const Problem& problem;

  TW_INLINE bool differ() const {
    if constexpr (kDiffer) return problem.differ();
    return false;
  }

  TW_INLINE int64_t rows(int64_t i) const {
    if constexpr (kDiffer) return problem.rows(i);
    return problem.m;
  }
  TW_INLINE int64_t depth(int64_t i) const {
    if constexpr (kDiffer) return problem.depth(i);
    return problem.k;
  }
  TW_INLINE int64_t rows_before(int64_t i) const {
    if constexpr (kDiffer) return problem.rows_before(i);
    return i * problem.m;
  }
  TW_INLINE int64_t all_rows() const {
    if constexpr (kDiffer) return problem.all_rows();
    return problem.batch * problem.m;
  }
  TW_INLINE int64_t occupied() const {
    if constexpr (kDiffer) return problem.occupied();
    return problem.batch;
  }
};

/// What a schedule is made for.
struct GemmShape {
  int64_t batch, m, n, k;
  bool panels_ready;      // b is packed already and is multiplied as it lies
  double b_bytes;         // of one element of b
  int64_t packed_bytes;   // of one value of k, packed
  double gflops;          // of one thread
  int64_t max_tile_rows;  // of the register tile
  int64_t live_rows;      // rows of a and columns of b that are to be in L1 together
  bool may_share_b;       // where it is not ready, it may be packed once for all tasks
  bool b_across;          // a panel has a short piece of each of many rows
  int64_t k_unit = 32;    // blocks of k begin at multiples of it
};

/// Tasks of one multiplication, numbered row block first, then panel block, then batch.
struct GemmSchedule {
  static constexpr int64_t kPanel = 32;  // columns of a panel (tile::kPanelWidth)

  int64_t tile_rows = 0;     // rows of a register tile; the last of all may have fewer
  int64_t block_rows = 0;    // rows of a task, a multiple of tile_rows
  int64_t block_panels = 0;  // panels of a task
  int64_t row_blocks = 0, panel_blocks = 0;
  int64_t k_block = 0, k_blocks = 0;
  bool share_a = false;      // a phase of its own packs a, once, for all tasks
  bool share_b = false;      // and b
  bool k_innermost = false;  // a panel is finished before the next one begins
  int64_t group_panels = 1;  // panels packed together, so that rows of b are read in long pieces

  TW_INLINE int64_t tasks(int64_t batch) const { return batch * row_blocks * panel_blocks; }
};

namespace gemm_detail {
TW_INLINE int64_t blocks(int64_t n, int64_t step) {
  return (n + step - 1) / step;
}
TW_INLINE int64_t at_least(int64_t a, int64_t b) {
  return a > b ? a : b;
}
TW_INLINE int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}
/// n split into equal steps of at most `most`, each a multiple of `unit`.
TW_INLINE int64_t even_step(int64_t n, int64_t most, int64_t unit) {
  const int64_t count = at_least(1, blocks(n, at_least(most, unit)));
  return blocks(blocks(n, count), unit) * unit;
}

/// How many tasks pay: each runs for some microseconds, and there are enough to share evenly.
TW_INLINE int64_t wanted_tasks(const GemmShape& s, const Machine& machine) {
  constexpr double kTaskSeconds = 4e-6, kBytesPerSecond = 30e9;
  constexpr int64_t kTasksPerThread = 8;
  const double products = double(s.batch) * double(s.m) * double(s.n) * double(s.k);
  const double arithmetic = 2 * products / (s.gflops * 1e9);
  const double reading = double(s.batch) * double(s.n) * double(s.k) * s.b_bytes / kBytesPerSecond;
  const double tasks = (arithmetic > reading ? arithmetic : reading) / kTaskSeconds;
  const int64_t most = machine.threads > 1 ? machine.threads * kTasksPerThread : 1;
  return tasks < double(most) ? at_least(1, int64_t(tasks)) : most;
}

/// Row tiles of a task. A block of a, k_block deep, keeps a quarter of L2, or half where that saves
/// packing b again; its results, where k has several blocks, half: what is read from beyond L2 is a
/// for every column of these and b, which is prefetched, for every row.
TW_INLINE int64_t most_row_tiles(const GemmShape& s, const GemmSchedule& schedule,
                                 const Machine& machine, bool shares_b) {
  constexpr int64_t kMostRows = 512;
  const int64_t tile_bytes = schedule.tile_rows * schedule.k_block * s.packed_bytes;
  const int64_t half = machine.l2_bytes / 2 / tile_bytes;
  const bool saves = !s.panels_ready && (!shares_b || blocks(s.m, schedule.tile_rows) <= half);
  return at_least(1, at_most(kMostRows / schedule.tile_rows, saves ? half : half / 2));
}
}  // namespace gemm_detail

/// The schedule for sizes > 0.
TW_INLINE GemmSchedule schedule_gemm(const GemmShape& s, const Machine& machine) {
  using namespace gemm_detail;
  constexpr int64_t kPanel = GemmSchedule::kPanel, kResult = 4;  // bytes of a sum
  constexpr int64_t kSharedBytes = 64
                                   << 20;  // memory worth spending on a packed copy of a, or of b
  GemmSchedule out;

  const int64_t row_tiles = blocks(s.m, s.max_tile_rows), panels = blocks(s.n, kPanel);
  out.tile_rows = blocks(s.m, row_tiles);

  // What is live stays in two thirds of L1: the columns of a panel, past which tiles of a stream,
  // and these, too, where the instruction takes them up as fast. One row tile uses a panel once: it
  // is read whole, or packed in pieces that stay in half of L1.
  const int64_t live = row_tiles > 1 ? machine.l1d_bytes * 2 / 3 / (s.live_rows * s.packed_bytes)
                                     : machine.l1d_bytes / 2 / (kPanel * s.packed_bytes);
  out.k_block = row_tiles == 1 && s.panels_ready ? s.k : even_step(s.k, live, s.k_unit);
  out.k_blocks = blocks(s.k, out.k_block);

  // Packing b pays once for all rows, if there is memory for it, or else for those of one block.
  const double b_bytes = double(s.batch) * double(s.n) * double(s.k * s.packed_bytes);
  const bool shares_b = s.may_share_b && b_bytes <= double(kSharedBytes);
  const int64_t most_tiles = most_row_tiles(s, out, machine, shares_b);
  int64_t block_tiles = blocks(row_tiles, blocks(row_tiles, most_tiles));
  out.block_rows = block_tiles * out.tile_rows;
  out.row_blocks = blocks(row_tiles, block_tiles);
  out.k_innermost = !s.b_across && out.block_rows * s.k * s.packed_bytes <= machine.l2_bytes / 2;
  const bool may_share = s.m > 2 && double(s.batch) * double(s.m) * double(s.k * s.packed_bytes) <=
                                        double(kSharedBytes);
  const int64_t result_panels =
      at_least(2, machine.l2_bytes / 2 / (out.block_rows * kPanel * kResult));
  int64_t most_panels = out.k_blocks > 1 && !out.k_innermost ? result_panels : 64;
  if (!may_share) most_panels = at_least(most_panels, 32);  // or packing a again would show

  const int64_t wanted = wanted_tasks(s, machine);
  int64_t panel_blocks =
      at_least(blocks(panels, most_panels), blocks(wanted, s.batch * out.row_blocks));
  panel_blocks = at_most(panel_blocks, panels);
  out.block_panels = blocks(panels, panel_blocks);
  out.panel_blocks = blocks(panels, out.block_panels);
  // Few tasks: rather single panels than rows cut finer, for which b may have to be copied as a
  // whole.
  if (out.tasks(s.batch) < wanted && out.row_blocks == 1 && out.block_panels > 1) {
    out.block_panels = at_least(1, panels / panel_blocks);
    out.panel_blocks = blocks(panels, out.block_panels);
  }
  if (out.tasks(s.batch) < wanted) {  // narrow: cut the rows finer, down to two tiles
    const int64_t pieces =
        at_most(blocks(wanted, s.batch * out.panel_blocks), blocks(row_tiles, 2));
    block_tiles = at_most(block_tiles, blocks(row_tiles, pieces));
    out.block_rows = block_tiles * out.tile_rows;
    out.row_blocks = blocks(row_tiles, block_tiles);
  }
  out.share_a = may_share && out.panel_blocks > 1;
  out.share_b = shares_b && out.row_blocks > 1;
  if (s.b_across && !s.panels_ready && !out.share_b)  // in a quarter of L2
    out.group_panels = at_least(
        1,
        at_most(out.block_panels, machine.l2_bytes / 4 / (out.k_block * kPanel * s.packed_bytes)));
  return out;
}

}  // namespace tw::kernels

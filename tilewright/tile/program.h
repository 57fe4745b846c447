// What a running instance of a kernel knows about itself, on every target. Freestanding.
//
// A kernel is an aggregate of its arguments with
//
//     Plan plan<P>(const Machine&) const     how much work there is, for the build P
//     void operator()(P p) const             the work of one program instance
//
// The launcher runs instances 0 .. plan.grid[phase) of each phase, in any order and on any thread;
// all instances of a phase finish before the next phase starts.
#pragma once

#include "tilewright/core/machine.h"
#include "tilewright/core/types.h"

namespace tw::tile {

TW_INLINE constexpr int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

struct Plan {
  static constexpr int kMaxPhases = 4;
  int phases = 1;
  int64_t grid[kMaxPhases] = {};  // program instances per phase
  int64_t workspace_bytes = 0;    // shared by all instances, uninitialised, 64-byte aligned
  int64_t scratch_bytes = 0;      // private to the thread running an instance, 64-byte aligned
  /// That an instance walks in each phase: how many threads of a GPU it is worth; 0: one.
  int64_t columns[kMaxPhases] = {};
  int row_columns = 0;  // that a thread of a kernel of rows takes, before another thread is; or 0

  TW_INLINE Plan over(int64_t width) const {
    Plan plan = *this;
    for (int64_t& each : plan.columns) each = width;
    return plan;
  }
  /// The same for a kernel of rows, of which short ones are many: what a thread does for a row
  /// costs more than what it does for some more columns, so that a row has few threads.
  TW_INLINE Plan over_row(int64_t width, int each = 32) const {
    Plan plan = over(width);
    plan.row_columns = each;
    return plan;
  }
  TW_INLINE Plan over_at_most(int64_t width, int64_t most) const {
    return over(lesser(width, most));
  }
  /// Columns that so many threads of a GPU are worth: whole warps, or a power of two below.
  static constexpr int kColumnsOfLane = 8, kColumnsOfThread = 32;
  TW_INLINE static int64_t columns_of(int64_t threads) {
    return threads * (threads > 32 ? kColumnsOfThread : kColumnsOfLane);
  }
  /// For kernels that deal out their work themselves.
  TW_INLINE Plan over_threads(int64_t threads) const { return over(columns_of(threads)); }
};

/// Columns that the threads of a GPU's program are worth where its row is read once: of many rows,
/// a warp has one, which reaches its sum without waiting for others; of few, more threads are
/// quicker.
TW_INLINE int64_t columns_read_once(int64_t rows) {
  constexpr int64_t kMany = 4096;
  return rows < kMany ? 4096 : 1024;
}

/// The common case: one phase of `grid` instances.
TW_INLINE Plan plan_of(int64_t grid, int64_t scratch_bytes = 0) {
  Plan plan;
  plan.grid[0] = grid;
  plan.scratch_bytes = scratch_bytes;
  return plan;
}

/// Of a kernel that has several ways on a GPU (tile/cuda/entry.h), each an entry of its own, whose
/// loops have the registers to themselves, `int way() const` says which, below kGpuWays. A kernel
/// that names the rows it works on,
///
///     auto row_operands(F&& f) const    f of its operands
///
/// has two, but for more of its own: these are aligned (tile/cuda/alignment.h), or not. A kernel of
/// kGpuVariants has each way once for each of them, and `int variant() const` says which it is.
inline constexpr int kAlignedRows = 0, kAnyRows = 1;
template <class Kernel>
TW_DEVICE constexpr int gpu_variants() {
  if constexpr (requires { Kernel::kGpuVariants; })
    return Kernel::kGpuVariants;
  else
    return 1;
}
/// Registers of a GPU's thread at most, unless the kernel wants more.
template <class Kernel>
TW_DEVICE constexpr int gpu_registers() {
  if constexpr (requires { Kernel::kGpuRegisters; })
    return Kernel::kGpuRegisters;
  else
    return 64;
}

/// Units and rows of a block that turn_block takes on a GPU: four lines of either side.
template <class U>
inline constexpr int64_t kTurnedBlock = 256 / int64_t{sizeof(U)};

/// Rows that a program has together where an operand's lie side by side (map_rows).
inline constexpr int64_t kTurnedRows = 64;

/// The rows [first, last) that one program walks.
struct RowGroup {
  int64_t first, last;
};

/// The state behind a CPU program. One per thread; the launcher moves index and phase.
struct ProgramState {
  int64_t index = 0;
  int phase = 0;
  bool streaming = false;  // outputs exceed the caches: store around them
  void* workspace = nullptr;
  void* scratch = nullptr;
  const Machine* machine = nullptr;
};

}  // namespace tw::tile

// How attention is cut into program instances on the CPU, for every operator of the family.
//
// Phase 0: one task per sequence, kv head and tile of queries. Where these are too few for the
// threads, the blocks of keys are spread too: each task then leaves (m, l, values) per row and
// block in the workspace, and phase 1 merges them in block order, with the same operations as a
// task that walks all blocks. The cut follows the problem's size and changes no result. Split keys:
// Flash-Decoding (Dao et al. 2023); tiling: FlashAttention-2, arXiv:2307.08691.
//
// A kernel gives shape(), options(), lengths() and sequence(b).
#pragma once

#include "tilewright/kernels/attention_heads_cpu.h"
#if defined(__AMX_BF16__)
#include "tilewright/kernels/attention_amx.h"
#endif

namespace tw::kernels::attention_detail {

/// Whether queries of T and keys of U can be multiplied by tiles.
template <class P, class T, class U>
inline constexpr bool kHasTiles =
    P::kHasAmx && tile::same_type<T, bf16> && tile::same_type<U, bf16>;

/// Whether they can be by pairs, vdpbf16ps.
template <class P, class T, class U>
inline constexpr bool kHasPairs =
    P::kHasBf16 && tile::same_type<T, bf16> &&
    (tile::same_type<U, bf16> || (tile::kHasBytePairs && tile::kIsByteOfBf16<U>));

/// Whether a key is its dims alone, with one scale at most, not as latents may be (mla.h).
template <class T, class U>
TW_INLINE bool is_plain(const AttentionSequence<T, U>& sequence) {
  return !sequence.k_pe && sequence.scale_parts == 1;
}
/// Whether this call's are.
template <class P, class T, class U>
TW_INLINE bool uses_tiles(const AttentionSequence<T, U>& sequence, const AttentionOptions& options,
                          const Machine& machine) {
  return kHasTiles<P, T, U> && machine.prefers_bf16_tiles() && !ScoreBias(sequence, options) &&
         !options.mods && is_plain(sequence);
}

struct Schedule {
  int64_t q_tile = 1;            // queries per tile
  bool together = false;         // a task has all kv heads
  int64_t tiles = 0;             // over all sequences and kv heads
  int64_t blocks_per_split = 0;  // 0: keys are not split
  int64_t split_tasks = 0;
  int64_t slots = 0;  // rows x blocks in the workspace

  TW_INLINE int64_t heads(const AttentionShape& shape) const {  // that are different tasks
    return together ? 1 : shape.kv_heads;
  }
};

TW_INLINE constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Rows per tile: many enough to pay for copying a block of keys, few enough that the block stays
/// in L2 beside their queries and accumulators.
TW_INLINE int64_t most_rows(const AttentionShape& shape, const Machine& machine) {
  const int64_t width = shape.dims + shape.rotated_dims + shape.value_dims;
  const int64_t fitting = machine.l2_bytes / 5 / width - kKeyBlock;  // floats, 4 of 5 bytes of L2
  const int64_t least = 96, most = 384;
  return fitting < least ? least : fitting > most ? most : fitting;
}

TW_INLINE int64_t count_tiles(const AttentionShape& shape, const SequenceLengths& lengths,
                              int64_t q_tile) {
  int64_t tiles = 0;
  for (int64_t b = 0; b < lengths.sequences; ++b) tiles += ceil_div(lengths.q_len(b), q_tile);
  return tiles * shape.kv_heads;
}

/// Spreads the blocks over tasks, if there are several and what they leave behind is small.
TW_INLINE void plan_split(const AttentionShape& shape, const SequenceLengths& lengths,
                          const Machine& machine, Schedule& out) {
  constexpr int64_t kMostBytes = 32 << 20;
  int64_t slots = 0, block_tasks = 0, most_blocks = 0;
  for (int64_t b = 0; b < lengths.sequences; ++b) {
    const int64_t blocks = key_blocks(lengths.kv_len(b));
    slots += lengths.q_len(b) * shape.q_heads * blocks;
    block_tasks += ceil_div(lengths.q_len(b), out.q_tile) * out.heads(shape) * blocks;
    if (blocks > most_blocks) most_blocks = blocks;
  }
  if (most_blocks < 2 || slots * (shape.value_dims + 64) * 4 > kMostBytes) return;
  const int64_t tasks_of_thread = out.together ? 4 : 16;  // of one task memory is read in order
  out.blocks_per_split = ceil_div(block_tasks, machine.threads * tasks_of_thread);
  out.slots = slots;
  for (int64_t b = 0; b < lengths.sequences; ++b)
    out.split_tasks += ceil_div(lengths.q_len(b), out.q_tile) * out.heads(shape) *
                       ceil_div(key_blocks(lengths.kv_len(b)), out.blocks_per_split);
}

template <class P>
__attribute__((noinline)) Schedule make_schedule(const AttentionShape& shape,
                                                 const SequenceLengths& lengths,
                                                 bool heads_together, const Machine& machine) {
  Schedule out;
  const int64_t group = shape.group();
  if (group == 0 || lengths.sequences == 0) return out;
  int64_t longest = 0;  // queries of any sequence
  for (int64_t b = 0; b < lengths.sequences; ++b)
    if (lengths.q_len(b) > longest) longest = lengths.q_len(b);
  if (longest == 0) return out;

  const int64_t wanted = machine.threads > 1 ? int64_t{machine.threads} * 4 : 1;
  const int64_t least_rows = 4 * kTileRows<P>;
  out.q_tile = ceil_div(most_rows(shape, machine), group);
  if (out.q_tile > longest) out.q_tile = longest;
  out.tiles = count_tiles(shape, lengths, out.q_tile);
  while (out.tiles < wanted && out.q_tile > 1 && (out.q_tile / 2) * group >= least_rows) {
    out.q_tile = ceil_div(out.q_tile, 2);
    out.tiles = count_tiles(shape, lengths, out.q_tile);
  }
  out.together = heads_together && out.q_tile * group <= kDirectRows;
  const int64_t tasks = out.together ? out.tiles / shape.kv_heads : out.tiles;
  if (machine.threads == 1 || tasks >= 4 * machine.threads) return out;
  plan_split(shape, lengths, machine, out);
  return out;
}
template <class P, class T, class U, class K>
TW_INLINE Schedule schedule_of(const K& kernel, const Machine& machine) {
  const AttentionShape shape = kernel.shape();
  bool together = false;
  if (kernel.lengths().sequences > 0) {
    const AttentionSequence<T, U> any = kernel.sequence(0);
    together = !uses_tiles<P>(any, kernel.options(), machine) && is_plain(any) &&
               heads_lie_together<P>(shape, any.k, any.v, machine);
  }
  return make_schedule<P>(shape, kernel.lengths(), together, machine);
}

/// Which work an instance has.
struct TaskAt {
  int64_t sequence = 0, split = 0;
  int64_t first_slot = 0;  // of the sequence
  TileRows who;
};

/// Finds task `index`. Tiles count down, because the last ones see the most keys when causal; tasks
/// of one head follow each other, so that its keys are read from the caches.
template <class P>
__attribute__((noinline)) TaskAt find_task(const AttentionShape& shape,
                                           const SequenceLengths& lengths, const Schedule& schedule,
                                           bool merges, int64_t index) {
  TaskAt out{};
  const bool split = schedule.blocks_per_split > 0 && !merges;
  const int64_t heads = merges ? shape.kv_heads : schedule.heads(shape);
  for (;; ++out.sequence) {
    const int64_t q_len = lengths.q_len(out.sequence);
    const int64_t blocks = key_blocks(lengths.kv_len(out.sequence));
    const int64_t tiles = ceil_div(q_len, schedule.q_tile);
    const int64_t splits = split ? ceil_div(blocks, schedule.blocks_per_split) : 1;
    const int64_t tasks = tiles * heads * splits;
    if (index < tasks) {
      const int64_t first = (tiles - 1 - index / splits % tiles) * schedule.q_tile;
      const int64_t left = q_len - first;
      out.split = index % splits;
      out.who = {first, (left < schedule.q_tile ? left : schedule.q_tile) * shape.group(),
                 shape.group(), index / splits / tiles};
      return out;
    }
    index -= tasks;
    out.first_slot += q_len * shape.q_heads * blocks;
  }
}

template <class T, class U, class P, class K>
TW_INLINE tile::Plan make_plan(const K& kernel, const Machine& machine) {
  const AttentionShape shape = kernel.shape();
  const Schedule schedule = schedule_of<P, T, U>(kernel, machine);
  tile::Plan plan;
  const int64_t rows = schedule.q_tile * (shape.group() > 0 ? shape.group() : 1);
  const TileScratch<P> at(shape, rows);
  int64_t floats = at.total + (shape.kv_heads - 1) * (schedule.together ? at.own : 0);
#if defined(__AMX_BF16__)
  if constexpr (kHasTiles<P, T, U>) {  // tasks that merge partials want the other
    const int64_t tiled = AmxScratch(shape, rows).total;
    if (tiled > floats) floats = tiled;
  }
#endif
  plan.scratch_bytes = floats * int64_t{sizeof(float)};
  plan.grid[0] = schedule.together ? schedule.tiles / shape.kv_heads : schedule.tiles;
  if (schedule.blocks_per_split > 0) {
    plan.phases = 2;
    plan.grid[0] = schedule.split_tasks;
    plan.grid[1] = schedule.tiles;
    plan.workspace_bytes = Partials::bytes(schedule.slots, shape.value_dims);
  }
  return plan;
}

}  // namespace tw::kernels::attention_detail

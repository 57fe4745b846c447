// Turning a block of a matrix over in shared memory. Freestanding.
#pragma once

#include "tilewright/tile/cuda/memory.h"
#include "tilewright/tile/cuda/program.h"

namespace tw::tile {

/// to[u * to_unit + v * to_step] = from[v * from_step + u] for u < units and v < rows, at most a
/// TurnedBlock of them. Needs a block of its own.
template <class P, class U>
__device__ __forceinline__ void turn_block(P p, const U* from, int64_t from_step, U* to,
                                           int64_t to_unit, int64_t to_step, int64_t units,
                                           int64_t rows) {
  using Block = cuda::TurnedBlock<U>;
  using Word = typename detail::WordOf<Block::kWordBytes>::type;
  constexpr int kN = 16 / int(sizeof(U)), kG = Block::kPacked, kPitch = Block::kPitch;
  using Line = Raw<U, kN>;
  Word* const words = reinterpret_cast<Word*>(cuda::shared_scratch);

  // A warp takes 8 pieces of 16 bytes from each of 4 rows: whole lines, and few bank conflicts.
  for (int i = p.thread(); i < 16 * Block::kElements / kG; i += p.threads()) {
    const int piece = i % 8 + 8 * (i / 32 % 2), word = i / 8 % 4 + 4 * (i / 64);
    const int64_t u = piece * kN, rest = units - u;
    if (rest <= 0) continue;
    Line lines[kG];
    TW_UNROLL
    for (int g = 0; g < kG; ++g) {
      const int64_t v = word * kG + g;
      const U* line = from + v * from_step + u;
      if (v < rows && rest >= kN && Line::is_aligned(line))
        lines[g] = Line::load(line);
      else
        lines[g] = Line::gather(line, 1, v < rows ? (rest < kN ? int(rest) : kN) : 0);
    }
    TW_UNROLL
    for (int j = 0; j < kN; ++j) {
      U column[kG];
      TW_UNROLL
      for (int g = 0; g < kG; ++g) column[g] = lines[g].element(j);
      Word packed;
      __builtin_memcpy(&packed, column, sizeof(packed));
      words[(piece * kN + j) * kPitch + word] = packed;
    }
  }
  __syncthreads();
  for (int i = p.thread(); i < 16 * Block::kElements; i += p.threads()) {
    const int piece = i % 8 + 8 * (i / 32 % 2), u = i / 8 % 4 + 4 * (i / 64);
    const int64_t v = piece * kN, rest = rows - v;
    if (u >= units || rest <= 0) continue;
    Word column[kN / kG];
    TW_UNROLL
    for (int m = 0; m < kN / kG; ++m) column[m] = words[u * kPitch + piece * (kN / kG) + m];
    Line line;
    __builtin_memcpy(&line, column, sizeof(line));
    U* const target = to + u * to_unit + v * to_step;
    if (rest >= kN && to_step == 1 && Line::is_aligned(target))
      line.store(target);
    else
      line.scatter(target, to_step, rest < kN ? int(rest) : kN);
  }
}

}  // namespace tw::tile

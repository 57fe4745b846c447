// Turning blocks of a matrix over on a GPU where both sides are whole words of 16 bytes: all of a
// thread's loads are on their way before the first is used. See tile/cuda/transpose.h, which takes
// blocks of any kind.
#pragma once

#include "tilewright/tile/tile.h"

namespace tw::kernels {

#if defined(__CUDACC__)
/// As tile::turn_block, of adjacent elements of `to`, by so many threads.
template <int kThreads, class P, class U>
__device__ __forceinline__ void turn_words(P p, const U* from, int64_t from_step, U* to,
                                           int64_t to_unit, int64_t units, int64_t rows) {
  using Block = tile::cuda::TurnedBlock<U>;
  using Word = typename tile::detail::WordOf<Block::kWordBytes>::type;
  using Line = tile::Raw<U, 16 / int(sizeof(U))>;
  constexpr int kN = 16 / int(sizeof(U)), kG = Block::kPacked, kPitch = Block::kPitch;
  // A warp takes 8 pieces of 16 bytes from each of 4 rows: whole lines, and few bank conflicts.
  const int piece = p.thread() % 8 + 8 * (p.thread() / 32 % 2);
  const int row = p.thread() / 8 % 4 + 4 * (p.thread() / 64);
  constexpr int kAtOnce = kThreads / 16;  // rows
  constexpr int kRounds = Block::kElements / kG / kAtOnce;
  constexpr int kTogether = kRounds < 8 / kG ? kRounds : 8 / kG;  // rounds: at most 8 lines
  Word* const words = reinterpret_cast<Word*>(tile::cuda::shared_scratch);
  const U* source = from + row * kG * from_step + piece * kN;
  const bool has_units = piece * kN < units;
  TW_UNROLL
  for (int first = 0; first < kRounds; first += kTogether) {
    Line lines[kTogether][kG];
    TW_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      TW_UNROLL
      for (int g = 0; g < kG; ++g) {
        const int v = (row + (first + k) * kAtOnce) * kG + g;
        lines[k][g] = has_units && v < rows ? Line::load(source + g * from_step) : Line{};
      }
      source += kAtOnce * kG * from_step;
    }
    TW_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      Word* const column = words + piece * kN * kPitch + row + (first + k) * kAtOnce;
      TW_UNROLL
      for (int j = 0; j < kN; ++j) {
        U packed[kG];
        TW_UNROLL
        for (int g = 0; g < kG; ++g) packed[g] = lines[k][g].element(j);
        __builtin_memcpy(column + j * kPitch, packed, sizeof(Word));
      }
    }
  }
  __syncthreads();
  if (piece * kN >= rows) return;
  U* target = to + row * to_unit + piece * kN;
  TW_UNROLL
  for (int u = row; u < row + Block::kElements; u += kAtOnce, target += kAtOnce * to_unit) {
    if (u >= units) return;
    Word column[kN / kG];
    TW_UNROLL
    for (int m = 0; m < kN / kG; ++m) column[m] = words[u * kPitch + piece * (kN / kG) + m];
    Line line;
    __builtin_memcpy(&line, column, sizeof(line));
    line.store(target);
  }
}
#endif

}  // namespace tw::kernels

// The producer of a grouped product whose rows are gathered (gemm_grouped_sm90.h): TMA brings the
// weights, all threads of the warpgroup copy the rows, eight of them 128 bytes of one.
//
// Copies write as ordinary stores do, so whoever waited for one must fence before wgmma may read
// it: a stage is announced when the copies of kLag later ones are under way.
#pragma once

#include "tilewright/kernels/gemm_grouped_build_sm90.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/mbarrier.h"
#include "tilewright/tile/cuda/ring.h"

namespace tw::kernels {

template <class T>
struct GroupedGatherSm90 {
  using Build = GroupedGemmBuild;
  using Position = tile::cuda::RingPosition<Build::kStages>;
  static constexpr int kLag = 2, kChunks = 8, kStep = 128 / kChunks;
  static constexpr int kArrivals = 4;  // at a stage's barrier: a warp each
  static constexpr int kTileK = 128 / int(sizeof(T));
  static_assert(kStep == Build::kUnit, "a thread has a row of each unit");
  static_assert(kLag + 2 < Build::kStages, "consumers still hold two stages");

  const GroupedGemmArguments<T>& given;
  char* rows;  // of stage 0
  tile::cuda::Mbarrier* full;
  int issued = 0;
  Position announced{};
  int numbers[Build::kMostUnits];  // of the thread's rows in a

  TW_PTX int thread() const { return int(threadIdx.x); }

  /// Of a tile.
  TW_PTX void open(const GroupedGemmPlace& place) {
    const int last = int(given.numbers.size(0)) - 1;
    TW_UNROLL
    for (int u = 0; u < Build::kMostUnits; ++u) {
      if (u >= place.units) break;
      const int row = place.row + u * Build::kUnit + thread() / kChunks;
      const int number = given.numbers(row < last ? row : last);
      const bool exists = uint32_t(number) < uint32_t(given.a_rows);
      if (!exists && row < place.row + place.rows) __trap();
      numbers[u] = exists ? number : 0;  // of no group: multiplied in vain
    }
  }
  /// Starts the copies of a stage, which is free.
  TW_PTX void copy(int stage, const GroupedGemmPlace& place, int k) {
    using namespace tile::cuda;
    const int chunk = thread() % kChunks, first = thread() / kChunks;
    char* const to = rows + stage * Build::kMostRows * 128 + first * 128 + (chunk ^ first % 8) * 16;
    const int column = k + chunk * 16 / int(sizeof(T)), left = (given.k - column) * int(sizeof(T));
    const int bytes = left < 0 ? 0 : left < 16 ? left : 16;
    const char* const from = reinterpret_cast<const char*>(given.from + (bytes > 0 ? column : 0));
    TW_UNROLL
    for (int u = 0; u < Build::kMostUnits; ++u) {
      if (u >= place.units) break;
      copy_async_or_zero<16>(to + u * Build::kUnit * 128, from + numbers[u] * given.row_bytes,
                             bytes);
    }
    commit_copies();
    if (++issued > kLag) {
      wait_copy_groups<kLag>();
      announce();
    }
  }
  /// Announces what is still under way.
  TW_PTX void finish() {
    tile::cuda::wait_copies();
    for (int left = issued < kLag ? issued : kLag; left > 0; --left) announce();
  }

 private:
  TW_PTX void announce() {
    tile::cuda::fence_async_shared();
    __syncwarp();
    if (thread() % 32 == 0) full[announced.index].arrive();
    announced.next();
  }
};

}  // namespace tw::kernels

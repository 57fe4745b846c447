// The rows that belong to no group: they, or the rows of out that they go to, become zeros.
#pragma once

#include "tilewright/kernels/gemm_grouped_build_sm90.h"
#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

template <class T>
struct GroupGapsSm90 {
  const RowGroups& groups;
  const View<T, 2>& rows;  // out, columns along memory
  ScatteredRows scattered;

  /// Those in front of each group, and behind the last. A warp looks at 32 groups at once; the rows
  /// are dealt to the `warps` of all blocks, of which this is one.
  TW_PTX void clear(int warp, int warps) const {
    const int lane = int(threadIdx.x) % 32;
    const int64_t count = groups.count(), height = scattered.count;
    const auto inside = [&](int64_t row) { return int(row < 0 ? 0 : row > height ? height : row); };
    for (int64_t base = 0; base <= count; base += 32) {
      const int64_t g = base + lane;
      int begin = 0, end = 0;
      if (g <= count) {
        begin = inside(groups.floor(g));
        end = g < count ? inside(groups.begin(g)) : int(height);
      }
      for (uint32_t gaps = __ballot_sync(0xffffffffu, begin < end); gaps != 0; gaps &= gaps - 1) {
        const int from = __ffs(int(gaps)) - 1;
        const int first = __shfl_sync(0xffffffffu, begin, from);
        const int last = __shfl_sync(0xffffffffu, end, from);
        const int stride = int(gridDim.x) * warps;
        for (int row = first + int(blockIdx.x) * warps + warp; row < last; row += stride)
          if (const int64_t to = scattered.destination(row, rows.size(0)); to >= 0)
            clear_row(to, lane);
      }
    }
  }

 private:
  TW_PTX void clear_row(int64_t row, int lane) const {
    constexpr int kWide = 16 / int(sizeof(T));
    T* const to = rows.data + row * rows.stride(0);
    const int64_t columns = rows.size(1);
    const int64_t whole = reinterpret_cast<uint64_t>(to) % 16 == 0 ? columns / kWide * kWide : 0;
    for (int64_t i = lane * kWide; i < whole; i += 32 * kWide)
      *reinterpret_cast<uint4*>(to + i) = {};
    for (int64_t i = whole + lane; i < columns; i += 32) to[i] = T{};
  }
};

}  // namespace tw::kernels

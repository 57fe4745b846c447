// Matrix multiplication of float32 on any GPU, for any strides and sizes: out = activation(alpha a
// b^T * scales + bias) + beta residual, float32 products and sums: the matrix units would round.
//
// Panels of both operands come into a ring of stages in shared memory while threads multiply
// earlier ones; k may be dealt to several blocks, whose sums are added in order by another kernel.
#pragma once

#include "tilewright/kernels/gemm_strided_load.h"
#include "tilewright/kernels/gemm_strided_tile.h"
#include "tilewright/tile/cuda/grid_dependency.h"

namespace tw::kernels {

template <class T, GemmStridedBuild kBuild>
struct GemmStrided {
  static constexpr int kM = kBuild.tile_m, kN = kBuild.tile_n, kDepth = kBuild.depth;
  static constexpr int kStages = kBuild.stages, kThreads = kBuild.threads();
  static_assert(kDepth % 2 == 0 && kStages >= 2);

  using Tile = GemmStridedTile<T, kM, kN, kBuild.thread_m, kBuild.thread_n>;
  using Sums = typename Tile::Sums;
  using Fragment = typename Tile::Fragment;
  using LoaderA = GemmStridedLoader<T, kBuild, kM>;
  using LoaderB = GemmStridedLoader<T, kBuild, kN>;
  struct Stage {
    typename LoaderA::Panel a;
    typename LoaderB::Panel b;
  };
  struct Shared {
    union {
      Stage stages[kStages];
      typename Tile::Staged staged;
    };
    typename LoaderA::Table a_rows;
    typename LoaderB::Table b_rows;
  };
  static_assert(sizeof(Shared) == kBuild.shared_bytes());

  const GemmStridedArguments<T>& given;
  Shared& shared;
  Tile threads;

  __device__ GemmStrided(const GemmStridedArguments<T>& arguments, void* memory)
      : given(arguments), shared(*static_cast<Shared*>(memory)) {}

  __device__ void operator()() const {
    const auto tile = GemmStridedOrder(given.out.rows, given.out.cols, kM, kN).tile(blockIdx.x);
    const int64_t row = int64_t{tile.row} * kM, column = int64_t{tile.column} * kN;
    for (int64_t batch = blockIdx.y; batch < given.batch; batch += gridDim.y) {
      const RowGroups::Stretch part = given.part(batch, blockIdx.z);
      LoaderA a(given.a, batch, row, part.begin, shared.a_rows);
      LoaderB b(given.b, batch, column, part.begin, shared.b_rows);
      __syncthreads();
      Sums sums = {};
      multiply(a, b, part.end - part.begin, sums);
      threads.store(given, sums, shared.staged, {blockIdx.z, batch, row, column});
      __syncthreads();
    }
  }

 private:
  __device__ __forceinline__ void read(Fragment& to, const Stage& from, int k) const {
    threads.read(to, from.a[k], from.b[k]);
  }

  /// A stage is free when all threads have read the last fragment of it, which they do before the
  /// barrier that precedes the use of the next stage's first.
  __device__ __forceinline__ void multiply(LoaderA& a, LoaderB& b, int64_t depth,
                                           Sums& sums) const {
    int64_t ahead = depth;  // values of k that no copy has been begun for
    const auto begin = [&](int slot) {
      if (ahead <= 0) return;
      const int left = ahead < kDepth ? int(ahead) : kDepth;
      a.begin(shared.stages[slot].a, left);
      b.begin(shared.stages[slot].b, left);
      ahead -= kDepth;
    };
    TW_UNROLL
    for (int slot = 0; slot < kStages - 1; ++slot) {
      begin(slot);
      tile::cuda::commit_copies();
    }
    tile::cuda::wait_copy_groups<kStages - 2>();
    __syncthreads();
    Fragment fragments[2];
    read(fragments[0], shared.stages[0], 0);
    int slot = 0, free = kStages - 1;
    for (int64_t k = 0; k < depth; k += kDepth) {
      TW_UNROLL
      for (int i = 0; i < kDepth; ++i) {
        if (i == kDepth - 1) {
          tile::cuda::wait_copy_groups<kStages - 2>();
          __syncthreads();
          free = slot;
          slot = slot + 1 == kStages ? 0 : slot + 1;
        }
        read(fragments[(i + 1) % 2], shared.stages[slot], (i + 1) % kDepth);
        if (i == 0) {
          begin(free);
          tile::cuda::commit_copies();
        }
        Tile::add(sums, fragments[i % 2]);
      }
    }
    tile::cuda::wait_copies();
  }
};

/// Adds the sums of `parts` parts of k, in order.
template <class T>
struct GemmStridedSum {
  const GemmStridedArguments<T>& given;
  int64_t parts;

  __device__ void operator()() const {
    tile::cuda::wait_for_grids_before();
    const GemmStridedEpilogue<T> epilogue{given};
    const int64_t fours = given.parts_pitch() / 4;
    const int64_t count = given.batch * given.out.rows * fours;
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
      const int64_t row = index_quotient(i, fours), c = (i - row * fours) * 4;
      const int64_t batch = index_quotient(row, given.out.rows), r = row - batch * given.out.rows;
      const auto columns = epilogue.columns(c);
      tile::Pack<float, 4> sums = {};
      TW_UNROLL_LOADS
      for (int64_t z = 0; z < parts; ++z) {
        const float4 x = *epilogue.part(z, batch, r, c);
        sums = sums + tile::Pack<float, 4>{{x.x, x.y, x.z, x.w}};
      }
      epilogue.store(sums, batch, r, columns);
    }
  }
};

}  // namespace tw::kernels

// The linear layer with weights of 4 or 8 bits on Hopper:
//
//   out[m, n] = sum over k of x[m, k] (weight[n, k] - zero[n, g]) scale[n, g] + bias[n],
//   g = k / group
//
// The product is computed transposed: features are the rows of wgmma, whose left operand may come
// from registers, where the weights become 16-bit whole numbers without a rounding; tokens are its
// columns. The tensor cores add up the 64 values of k of a chunk, which have one scale; times the
// scale, the sums are added in float32. One warp keeps a ring of stages full by TMA. Where tiles
// are too few to draw all of the memory's bandwidth, the blocks of a cluster share the k of one and
// add up in order through distributed shared memory: equal calls give equal bits.
//
// Weights that stay in registers follow Marlin (Frantar et al., arXiv:2408.11743) in idea.
#pragma once

#include "tilewright/kernels/linear_int_build_sm90.h"
#include "tilewright/kernels/linear_int_store_sm90.h"
#include "tilewright/tile/cuda/bulk.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/integers.h"
#include "tilewright/tile/cuda/registers.h"
#include "tilewright/tile/cuda/ring.h"
#include "tilewright/tile/cuda/tma.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_fragment.h"

namespace tw::kernels {

template <class T, int kBits, LinearIntBuild<kBits> kBuild>
struct LinearIntSm90 {
  using Build = LinearIntBuild<kBits>;
  using Integers = tile::cuda::Integers<T, kBits>;
  static constexpr int kTokens = kBuild.tokens, kFeatures = kBuild.features();
  static constexpr int kConsumers = Build::kConsumers, kStages = kBuild.stages();
  static constexpr int kWarpgroup = 128, kWarps = 4 * kConsumers;
  static constexpr int kDepth = Build::kDepth, kChunk = Build::kChunk;
  static constexpr int kWays = kBuild.ways;
  static constexpr int kChunks = kDepth / kChunk, kChunksOfWay = kChunks / kWays,
                       kSteps = kChunk / 16;
  const LinearIntArguments<T>& given;

  /// Of a feature and a chunk of k. `base` is a pair of T, as Integers ask for it.
  struct alignas(8) Scale {
    float scale;
    uint32_t base;
  };
  struct alignas(1024) Shared {
    char weight[kStages][kFeatures * 128];
    char x[kStages][kChunks][kTokens * 128];
    Scale scales[kStages][kChunks][kFeatures];
    tile::cuda::Mbarrier full[kStages], empty[kStages];
  };
  static_assert(sizeof(Shared) == kBuild.shared_bytes() && kStages >= 2);
  static_assert(LinearIntStore<T, kTokens, kFeatures, kWays, 1>::kBytes <=
                sizeof(Shared::weight) + sizeof(Shared::x));

  using Position = tile::cuda::RingPosition<kStages>;
  using Sums = float[kTokens / 2];

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int warp = uniform(int(threadIdx.x) / 32);
    ask_for_weights();
    if (threadIdx.x == 0) {
      prefetch(given.x);
      prefetch(given.weight);
      for (int i = 0; i < kStages; ++i) {
        shared.full[i].init(1 + kScaleLanes);
        shared.empty[i].init(kWarps);
      }
      fence_barrier_init();
    }
    __syncthreads();
    wait_for_grids_before();
    if (warp >= kWarps) {
      give_registers<kBuild.producer_registers()>();
      if (warp == kWarps && elect_one()) load_tiles(shared);
      if (warp > kWarps && warp <= kWarps + kBuild.scale_warps() * kBuild.scale_turns())
        load_scales(shared, warp - kWarps - 1);
      __syncwarp();
      if (given.splits > 1) {  // the two in put()
        cluster_sync();
        cluster_sync();
      }
    } else {
      take_registers<kBuild.consumer_registers()>();
      consume(shared);
    }
  }

 private:
  // A block is a part of k, of a tile of tokens, of a tile of features, in this order.
  TW_PTX int split() const { return int(blockIdx.x) % given.splits; }
  TW_PTX int first_token() const {
    return int(blockIdx.x) / given.splits % given.token_tiles * kTokens;
  }
  TW_PTX int first_feature() const {
    return int(blockIdx.x) / given.splits / given.token_tiles * kFeatures;
  }
  TW_PTX int first_stage() const { return split() * given.stages / given.splits; }
  TW_PTX int last_stage() const { return (split() + 1) * given.stages / given.splits; }

  /// Asks for the beginning of this block's weights while the kernel before still runs. That reads
  /// nothing.
  TW_PTX void ask_for_weights() const {
    constexpr int kMost = 1024;  // bytes of a row
    const int feature = first_feature() + int(threadIdx.x);
    const int begin = first_stage() * Build::kStageBytes;
    const int end = last_stage() * Build::kStageBytes;
    int bytes = min(end, given.depth * kBits / 8) - begin;
    bytes = min(bytes, kMost) / 16 * 16;
    if (int(threadIdx.x) < kFeatures && feature < given.out.size(1) && bytes > 0)
      tile::cuda::prefetch_l2(given.weight_data + feature * given.weight_stride + begin, bytes);
  }

  TW_PTX void load_tiles(Shared& shared) const {
    using namespace tile::cuda;
    Position at;
    for (int i = first_stage(), last = last_stage(); i < last; ++i) {
      Mbarrier& full = shared.full[at.index];
      shared.empty[at.index].wait(at.phase ^ 1);
      full.arrive_expect(kFeatures * Build::kStageBytes + kTokens * kDepth * 2);
      load_box(shared.weight[at.index], given.weight, full, i * Build::kStageBytes, first_feature(),
               0);
      TW_UNROLL
      for (int c = 0; c < kChunks; ++c)
        load_box(shared.x[at.index][c], given.x, full, i * kDepth + c * kChunk, first_token(), 0);
      at.next();
    }
    launch_grids_after();  // not sooner: what the next kernel loads would delay these
  }

  /// Scales of a stage, as they lie in memory: of this lane's features.
  static constexpr int kScaleLanes = 32 * kBuild.scale_warps(), kShare = kFeatures / kScaleLanes;
  struct RawScales {
    T scale[kChunks][kShare];
    int8_t zero[kChunks][kShare];
  };
  TW_PTX void fetch(int stage, int lane, RawScales& to) const {
    TW_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const int chunk = stage * kChunks + c;
      const bool is_new = c == 0 || chunk % given.chunks_per_group == 0;
      const int group = min(chunk / given.chunks_per_group, given.groups - 1);
      TW_UNROLL
      for (int i = 0; i < kShare; ++i) {
        const int last = int(given.out.size(1)) - 1;
        const int64_t n = min(first_feature() + i * kScaleLanes + lane, last);
        to.scale[c][i] = is_new ? given.scale(n, group) : to.scale[c > 0 ? c - 1 : 0][i];
        if (given.zero)
          to.zero[c][i] = is_new ? given.zero(n, group) : to.zero[c > 0 ? c - 1 : 0][i];
      }
    }
  }
  /// Those of a warp's next stage are on their way while it waits for one to be free.
  TW_PTX void load_scales(Shared& shared, int warp) const {
    constexpr int kStep = kBuild.scale_turns();
    const int turn = warp / kBuild.scale_warps();
    const int lane = warp % kBuild.scale_warps() * 32 + int(threadIdx.x) % 32;
    Position at;
    for (int i = 0; i < turn; ++i) at.next();
    RawScales next = {};
    const int first = first_stage() + turn, last = last_stage();
    if (first < last) fetch(first, lane, next);
    for (int stage = first; stage < last; stage += kStep) {
      shared.empty[at.index].wait(at.phase ^ 1);
      TW_UNROLL
      for (int c = 0; c < kChunks; ++c) TW_UNROLL
      for (int i = 0; i < kShare; ++i) {
        const float base = Integers::raised(given.zero ? next.zero[c][i] : Integers::kNoZero);
        shared.scales[at.index][c][i * kScaleLanes + lane] = {float(next.scale[c][i]),
                                                              tile::cuda::pack<T>(base, base)};
      }
      if (stage + kStep < last) fetch(stage + kStep, lane, next);
      shared.full[at.index].arrive();
      TW_UNROLL
      for (int i = 0; i < kStep; ++i) at.next();
    }
  }

  // ---- consumers -------------------------------------------------------------------------
  TW_PTX static int way() { return int(threadIdx.x) / kWarpgroup % kWays; }
  /// The first of a thread's two features in the tile; the other is 8 further on.
  TW_PTX static int row() {
    const int thread = int(threadIdx.x);
    return thread / kWarpgroup / kWays * 64 + thread % kWarpgroup / 32 * 16 + thread % 32 / 4;
  }

  /// The weights of chunk c of this thread's features, as left operands.
  TW_PTX static void unpack(const char* weight, int c, const Scale (&scale)[2],
                            uint32_t (&to)[kSteps][4]) {
    constexpr int kPieces = kChunk * kBits / 8 / 16, kEights = kChunk / 8 / kPieces;
    const int place = int(threadIdx.x) % 4, swizzle = row() % 8;
    TW_UNROLL
    for (int h = 0; h < 2; ++h) {
      const char* const line = weight + (row() + 8 * h) * 128;
      TW_UNROLL
      for (int p = 0; p < kPieces; ++p) {
        const int piece = (kPieces * c + p) ^ swizzle;
        const uint4 x = *reinterpret_cast<const uint4*>(line + piece * 16);
        const uint32_t words[] = {x.x, x.y, x.z, x.w};
        TW_UNROLL
        for (int i = 0; i < kEights; ++i) {
          const int eight = p * kEights + i;
          to[eight / 2][eight % 2 * 2 + h] =
              Integers::two(words + i * Integers::kWords, place, scale[h].base);
        }
      }
    }
  }

  TW_PTX static void multiply(const char* x, const uint32_t (&weights)[kSteps][4], Sums& part) {
    using namespace tile::cuda;
    const uint64_t right = operand(x);
    pin(part);
    wgmma_fence();
    TW_UNROLL
    for (int s = 0; s < kSteps; ++s)
      WgmmaFragment<T, kTokens, false>::mma(part, weights[s], advance(right, s * 32), s > 0);
    wgmma_commit();
  }
  TW_PTX static void promote(Sums& part, const Scale (&scale)[2], Sums& sums) {
    tile::cuda::wgmma_wait<0>();
    tile::cuda::pin(part);
    TW_UNROLL
    for (int i = 0; i < kTokens / 2; ++i)
      sums[i] = __builtin_fmaf(part[i], scale[i % 4 / 2].scale, sums[i]);
  }

  TW_PTX void consume(Shared& shared) const {
    Sums sums;
    TW_UNROLL
    for (int i = 0; i < kTokens / 2; ++i) sums[i] = 0;
    add_stages(shared, sums);
    put(shared, sums);
  }

  /// The weights of a chunk are unpacked while the chunk before is multiplied.
  TW_PTX void add_stages(Shared& shared, Sums& sums) const {
    Position at;
    Sums part;
    uint32_t weights[2][kSteps][4];
    Scale scales[2][2];
    const int first = first_stage(), last = last_stage();
    for (int i = first; i < last; ++i) {
      shared.full[at.index].wait(at.phase);
      const char* const weight = shared.weight[at.index];
      TW_UNROLL
      for (int j = 0; j < kChunksOfWay; ++j) {
        const int c = way() * kChunksOfWay + j;
        TW_UNROLL
        for (int h = 0; h < 2; ++h) scales[j % 2][h] = shared.scales[at.index][c][row() + 8 * h];
        unpack(weight, c, scales[j % 2], weights[j % 2]);
        if (j > 0) promote(part, scales[(j - 1) % 2], sums);
        multiply(shared.x[at.index][c], weights[j % 2], part);
      }
      promote(part, scales[(kChunksOfWay - 1) % 2], sums);
      __syncwarp();
      if (threadIdx.x % 32 == 0) shared.empty[at.index].arrive();
      at.next();
    }
  }

  /// By way of the memory of the ring, of which nothing is on its way any more.
  TW_PTX void put(Shared& shared, const Sums& sums) const {
    using Store = LinearIntStore<T, kTokens, kFeatures, kWays, kConsumers * kWarpgroup>;
    float* const all = reinterpret_cast<float*>(&shared);
    tile::cuda::sync_named(Store::kBarrier,
                           kConsumers * kWarpgroup);  // nobody multiplies from there
    TW_UNROLL
    for (int i = 0; i < kTokens / 8; ++i)
      Store::keep(all, way(), 8 * i, row(),
                  {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
    Store{given}.put(all, first_token(), first_feature());
  }
};

}  // namespace tw::kernels

// What the warps of a block of attention's backward on Hopper share.
#pragma once

#include "tilewright/kernels/attention_backward_walk_sm90.h"
#include "tilewright/tile/cuda/mbarrier.h"
#include "tilewright/tile/cuda/ring.h"

namespace tw::kernels {

/// What consumers with different roles pass to each other: weights as registers hold them, and who
/// may write them and the slopes, or read them.
template <AttentionBackwardBuild kBuild, bool kSplitsRoles = kBuild.splits_roles()>
struct AttentionBackwardExchange {
  TW_PTX void init(int) {}
};
template <AttentionBackwardBuild kBuild>
struct AttentionBackwardExchange<kBuild, true> {
  float weights[kBuild.weight_count()];
  tile::cuda::Mbarrier weights_full, weights_empty, slopes_empty[2];

  TW_PTX void init(int warps) {
    weights_full.init(warps / 2);
    weights_empty.init(warps / 2);
    for (int i = 0; i < 2; ++i) slopes_empty[i].init(warps);
  }
};

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardBlock {
  static constexpr int kDims = kBuild.dims, kQueries = kBuild.queries, kKeys = kBuild.keys();
  static constexpr int kConsumers = kBuild.kConsumers;
  static constexpr int kKeyBuffers = kBuild.key_buffers();
  static constexpr int kQueryStages = kBuild.query_stages(), kGradStages = kBuild.grad_stages();
  static constexpr int kThreads = kBuild.kThreads, kWarpgroup = 128, kRows = 64, kRowBytes = 128;
  static constexpr int kChunk = 64, kChunks = kDims / kChunk;  // columns in 128 bytes
  static constexpr int kKeyChunk = kKeys * kRowBytes, kQueryChunk = kQueries * kRowBytes;
  // Of queries' gradients:
  static constexpr int kPieces = kBuild.pieces(), kParts = kBuild.parts();
  static constexpr int kPartDims = kBuild.part_dims(), kPart = kBuild.part_count();
  static constexpr int kSumBuffers = kBuild.sum_buffers();  // of a consumer
  static_assert(kQueries == kRows);
  static constexpr int kSlots = 8;  // of what is planned ahead
  static constexpr int kWarps = kConsumers * kWarpgroup / 32;
  static constexpr int kMeeting = 1;  // the named barrier of both consumers

  using Arguments = AttentionBackwardArguments<T>;
  using Order = AttentionBackwardOrder<kQueries, kKeys, T>;
  using Walk = AttentionBackwardWalk<kQueries, kKeys, T>;

  /// Where a step adds, and as which one in the order of additions.
  struct Addition {
    int64_t place;
    int rank;  // < 0: there are no more steps
  };

  struct alignas(1024) Shared {
    char k[kKeyBuffers][kBuild.key_bytes()], v[kBuild.key_bytes()];
    char q[kQueryStages][kBuild.query_bytes()], grad[kGradStages][kBuild.query_bytes()];
    char slopes[2][kBuild.slope_bytes()];
    float sums[kConsumers][kSumBuffers][kPart];
    [[no_unique_address]] AttentionBackwardExchange<kBuild> exchange;
    float rows[kQueryStages][2][kQueries];  // lse; grad · out
    int blocks[kQueryStages];               // which block of queries it is
    Addition additions[kSlots];
    tile::cuda::Mbarrier planned[kSlots], unplanned[kSlots];
    tile::cuda::Mbarrier k_full[kKeyBuffers], k_empty[kKeyBuffers];
    tile::cuda::Mbarrier v_full, v_empty, tail_full;
    tile::cuda::Mbarrier q_full[kQueryStages], q_empty[kQueryStages];
    tile::cuda::Mbarrier grad_full[kGradStages], grad_empty[kGradStages];
    tile::cuda::Mbarrier slopes_full[2];  // by the warps that compute some of them
    tile::cuda::Mbarrier sums_full[kConsumers][kSumBuffers], sums_empty[kConsumers][kSumBuffers];
  };
  static_assert(sizeof(Shared) == kBuild.shared_bytes());

  using QueryPosition = tile::cuda::RingPosition<kQueryStages>;
  using GradPosition = tile::cuda::RingPosition<kGradStages>;

  TW_PTX static void init(Shared& shared) {
    for (int i = 0; i < kKeyBuffers; ++i) {
      shared.k_full[i].init(1);
      shared.k_empty[i].init(kWarps);
    }
    shared.v_full.init(1);
    shared.v_empty.init(kWarps);
    shared.tail_full.init(1);
    for (int i = 0; i < kQueryStages; ++i) {
      shared.q_full[i].init(1);
      shared.q_empty[i].init(kWarps);
    }
    for (int i = 0; i < kGradStages; ++i) {
      shared.grad_full[i].init(1);
      shared.grad_empty[i].init(kWarps);
    }
    for (int i = 0; i < kSlots; ++i) {
      shared.planned[i].init(1);
      shared.unplanned[i].init(kConsumers);
    }
    for (int i = 0; i < kConsumers * kSumBuffers; ++i) {
      shared.sums_full[i / kSumBuffers][i % kSumBuffers].init(kWarpgroup);
      shared.sums_empty[i / kSumBuffers][i % kSumBuffers].init(1);
    }
    for (int i = 0; i < 2; ++i)
      shared.slopes_full[i].init(kBuild.splits_roles() ? kWarps / kConsumers : kWarps);
    shared.exchange.init(kWarps);
    tile::cuda::fence_barrier_init();
  }
};

}  // namespace tw::kernels

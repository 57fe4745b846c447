// What the warps of a block of attention's backward on Hopper share.
#pragma once

#include "tilewright/kernels/attention_backward_walk_sm90.h"
#include "tilewright/tile/cuda/mbarrier.h"
#include "tilewright/tile/cuda/ring.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardBlock {
  static constexpr int kDims = kBuild.dims, kQueries = kBuild.queries, kKeys = kBuild.kKeys;
  static constexpr int kStages = kBuild.kStages, kConsumers = kBuild.kConsumers;
  static constexpr int kThreads = kBuild.kThreads, kWarpgroup = 128, kRows = 64, kRowBytes = 128;
  static constexpr int kChunk = 64, kChunks = kDims / kChunk;  // columns in 128 bytes
  static constexpr int kKeyChunk = kKeys * kRowBytes, kQueryChunk = kQueries * kRowBytes;
  static constexpr int kPartDims = kDims / kConsumers;  // of queries' gradients
  static constexpr int kPart = kQueries * kPartDims;
  static_assert(kQueries == kRows);
  static constexpr int kAdders = 2;  // warps, and the buffers that they empty
  static constexpr int kSlots = 4;   // of what is planned ahead
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
    char k[kBuild.key_bytes()], v[kBuild.key_bytes()];
    char q[kStages][kBuild.query_bytes()], grad[kStages][kBuild.query_bytes()];
    char slopes[2][kBuild.slope_bytes()];
    float sums[kAdders][kConsumers][kPart];
    float rows[kStages][2][kQueries];  // lse; grad · out
    int blocks[kStages];               // which block of queries it is
    Addition additions[kSlots];
    tile::cuda::Mbarrier planned[kSlots], unplanned[kSlots];
    tile::cuda::Mbarrier k_full, v_full, tail_full, keys_empty;
    tile::cuda::Mbarrier q_full[kStages], q_empty[kStages], grad_full[kStages], grad_empty[kStages];
    tile::cuda::Mbarrier sums_full[kAdders][kConsumers], sums_empty[kAdders][kConsumers];
  };
  static_assert(sizeof(Shared) == kBuild.shared_bytes());

  /// A place in the rings of queries and of gradients.
  using Position = tile::cuda::RingPosition<kStages>;

  TW_PTX static void init(Shared& shared) {
    shared.k_full.init(1);
    shared.v_full.init(1);
    shared.tail_full.init(1);
    shared.keys_empty.init(kWarps);
    for (int i = 0; i < kStages; ++i) {
      shared.q_full[i].init(1);
      shared.grad_full[i].init(1);
      shared.q_empty[i].init(kWarps);
      shared.grad_empty[i].init(kWarps);
    }
    for (int i = 0; i < kSlots; ++i) {
      shared.planned[i].init(1);
      shared.unplanned[i].init(1);
    }
    for (int i = 0; i < kAdders * kConsumers; ++i) {
      shared.sums_full[i / kConsumers][i % kConsumers].init(kWarpgroup);
      shared.sums_empty[i / kConsumers][i % kConsumers].init(1);
    }
    tile::cuda::fence_barrier_init();
  }
};

}  // namespace tw::kernels

// Gradients of attention on Hopper, after FlashAttention-3 (arXiv:2407.08608, section 3 and its
// code's backward): formulas in attention_backward.h.
//
// A block has some keys and their values in shared memory and passes by the blocks of queries that
// see them. Scores and weights are computed turned, keys x queries. Two consumer warpgroups have
// half of the keys each (attention_backward_halves_sm90.h; up to 64 dims
// attention_backward_deferred_sm90.h) or, of more than 128 dims, a role each
// (attention_backward_roles_sm90.h). The queries' gradients are added up in global memory by bulk
// copies, in an order that does not depend on timing (attention_backward_order_sm90.h).
#pragma once

#include "tilewright/kernels/attention_backward_deferred_sm90.h"
#include "tilewright/kernels/attention_backward_feed_sm90.h"
#include "tilewright/kernels/attention_backward_halves_sm90.h"
#include "tilewright/kernels/attention_backward_roles_sm90.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/registers.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardSm90 {
  using Block = AttentionBackwardBlock<T, kBuild>;
  const typename Block::Arguments& given;

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    auto& shared = *reinterpret_cast<typename Block::Shared*>(memory);
    const int warpgroup = uniform(int(threadIdx.x) / Block::kWarpgroup);
    const int warp = uniform(int(threadIdx.x) / 32);
    if (threadIdx.x == 0) {
      prefetch(given.q);
      prefetch(given.k);
      prefetch(given.v);
      prefetch(given.grad);
      Block::init(shared);
    }
    __syncthreads();
    wait_for_grids_before();
    launch_grids_after();
    if (warpgroup == 0) {
      give_registers<kBuild.feed_registers()>();
      AttentionBackwardFeed<T, kBuild>{{}, given}(shared, warp);
    } else {
      take_registers<kBuild.consumer_registers()>();
      if constexpr (kBuild.splits_roles()) {
        const AttentionBackwardRoles<T, kBuild> roles{{{{}, given}}};
        if (warpgroup == 1)
          roles.weigh_values(shared);
        else
          roles.slope_keys(shared);
      } else if constexpr (kBuild.defers()) {
        AttentionBackwardDeferred<T, kBuild>{{{{}, given}}}(shared, warpgroup - 1);
      } else {
        AttentionBackwardHalves<T, kBuild>{{{{}, given}}}(shared, warpgroup - 1);
      }
    }
  }
};

}  // namespace tw::kernels

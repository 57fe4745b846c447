// How the sums of a linear layer with weights of 4 or 8 bits leave: by way of shared memory, where
// those of several warps and of the blocks of a cluster are added up in order, each block a share
// of them.
#pragma once

#include "tilewright/kernels/linear_int_build_sm90.h"
#include "tilewright/tile/cuda/cluster.h"
#include "tilewright/tile/cuda/convert.h"
#include "tilewright/tile/cuda/fence.h"

namespace tw::kernels {

/// kWays: sums of each result in a block.
template <class T, int kTokens, int kFeatures, int kWays, int kThreads>
struct LinearIntStore {
  static constexpr int kPitch = kFeatures + 4;  // of a token: no two lanes' banks are the same
  static constexpr int kBytes = kWays * kTokens * kPitch * 4;
  static constexpr int kBarrier = 1;  // the named one, of kThreads
  const LinearIntArguments<T>& given;

  /// A thread's sums as the matrix instructions leave them: of `feature` and the eighth after it,
  /// and two tokens of the eight from `token` on.
  TW_PTX static void keep(float* all, int way, int token, int feature, const float (&sums)[4]) {
    const int first = way * kTokens + token + int(threadIdx.x) % 4 * 2;
    TW_UNROLL
    for (int e = 0; e < 4; ++e) all[(first + e % 2) * kPitch + feature + e / 2 * 8] = sums[e];
  }

  /// All kThreads threads call. Others of the block meet the cluster twice.
  TW_PTX void put(float* all, int first_token, int first_feature) const {
    using namespace tile::cuda;
    if (given.splits > 1)
      cluster_sync();
    else
      sync_named(kBarrier, kThreads);
    constexpr int kFours = kFeatures / 4;  // of a token
    const int split = given.splits > 1 ? cluster_rank() : 0;
    const int64_t tokens = given.out.size(0) - first_token;
    for (int e = split * kThreads + int(threadIdx.x); e < kTokens * kFours;
         e += given.splits * kThreads) {
      const int token = e / kFours, feature = e % kFours * 4;
      if (token >= tokens) break;
      float total[4] = {};
      for (int r = 0; r < given.splits; ++r) TW_UNROLL
      for (int way = 0; way < kWays; ++way) {
        float part[4];
        load_cluster(part, all + (way * kTokens + token) * kPitch + feature, r);
        TW_UNROLL
        for (int j = 0; j < 4; ++j) total[j] += part[j];
      }
      store(first_token + token, first_feature + feature, total);
    }
    if (given.splits > 1) cluster_sync();  // nobody leaves while others read its sums
  }

 private:
  TW_PTX void store(int64_t token, int64_t feature, float (&sums)[4]) const {
    const int64_t rest = given.out.size(1) - feature;
    if (given.bias) {
      TW_UNROLL
      for (int j = 0; j < 4; ++j)
        if (j < rest) sums[j] += float(given.bias(feature + j));
    }
    T* const to = given.out.data + token * given.out.stride(0) + feature * given.out.stride(1);
    if (given.stores_words && rest >= 4) {
      *reinterpret_cast<uint2*>(to) = {tile::cuda::pack<T>(sums[0], sums[1]),
                                       tile::cuda::pack<T>(sums[2], sums[3])};
    } else {
      TW_UNROLL
      for (int j = 0; j < 4; ++j)
        if (j < rest) to[j * given.out.stride(1)] = T(sums[j]);
    }
  }
};

}  // namespace tw::kernels

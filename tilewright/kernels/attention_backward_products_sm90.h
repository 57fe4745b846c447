// The products of attention's backward on Hopper, and where consumers leave what they sum up.
#pragma once

#include "tilewright/kernels/attention_backward_weights_sm90.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/fragment_rows.h"
#include "tilewright/tile/cuda/wgmma.h"
#include "tilewright/tile/cuda/wgmma_fragment.h"

namespace tw::kernels {

template <class T, AttentionBackwardBuild kBuild>
struct AttentionBackwardProducts : AttentionBackwardWeights<T, kBuild> {
  using Block = AttentionBackwardBlock<T, kBuild>;
  using Base = AttentionBackwardWeights<T, kBuild>;
  using Block::kChunk, Block::kChunks, Block::kDims, Block::kKeyChunk, Block::kKeys;
  using Block::kPart, Block::kPartDims, Block::kQueries, Block::kQueryChunk, Block::kRowBytes;
  using Block::kSumBuffers, Block::kWarpgroup;
  using typename Base::Scores;
  using typename Base::Weights;
  using typename Block::Shared;
  using typename Block::Walk;
  using KeySums = float[kDims / 2];  // of 64 keys
  using QuerySums = float[kPart / kWarpgroup];

  /// 64 keys or values times a block of queries or of their gradients.
  TW_PTX static void multiply_rows(const char* keys, const char* queries, Scores& out) {
    using namespace tile::cuda;
    constexpr int kSteps = kRowBytes / 32;  // of 16 dims in 128 bytes
    TW_UNROLL
    for (int c = 0; c < kChunks; ++c) TW_UNROLL
    for (int i = 0; i < kSteps; ++i)
      Wgmma<T, kQueries>::mma(out, advance(operand(keys), c * kKeyChunk + i * 32),
                              advance(operand(queries), c * kQueryChunk + i * 32), c + i > 0);
  }
  /// Adds weights or slopes times the queries' gradients or the queries.
  TW_PTX static void multiply_fragment(const Weights& weights, const char* queries, KeySums& sums) {
    using namespace tile::cuda;
    TW_UNROLL
    for (int i = 0; i < kQueries / 16; ++i)
      WgmmaFragment<T, kDims>::mma(sums, weights + 4 * i,
                                   advance(operand(queries, kQueryChunk), i * 16 * kRowBytes), 1);
  }
  /// A part of the dims of 64 queries: slopes, turned, times keys.
  TW_PTX static void multiply_keys(const char* slopes, const char* k, int part, QuerySums& sums) {
    using namespace tile::cuda;
    const int column = part * kPartDims;
    const char* const right = k + column / kChunk * kKeyChunk + column % kChunk * 2;
    TW_UNROLL
    for (int i = 0; i < kKeys / 16; ++i)
      Wgmma<T, kPartDims, true, true>::mma(sums, advance(operand(slopes), i * 16 * kRowBytes),
                                           advance(operand(right), i * 16 * kRowBytes), i > 0);
  }

  /// Waits until a consumer's buffer for the count-th piece is empty.
  TW_PTX static void wait_sums(Shared& shared, int consumer, int count) {
    shared.sums_empty[consumer][count % kSumBuffers].wait((uint32_t(count / kSumBuffers) & 1) ^ 1);
  }
  TW_PTX static void put_sums(Shared& shared, int consumer, int count, const QuerySums& sums) {
    auto* const to = reinterpret_cast<float4*>(shared.sums[consumer][count % kSumBuffers]);
    TW_UNROLL
    for (int i = 0; i < kPart / kWarpgroup; i += 4)
      to[i / 4 * kWarpgroup + int(threadIdx.x) % kWarpgroup] = {sums[i], sums[i + 1], sums[i + 2],
                                                                sums[i + 3]};
  }
  /// What was put into shared memory is there for the copies.
  TW_PTX static void hand_sums(Shared& shared, int consumer, int count) {
    tile::cuda::fence_async_shared();
    shared.sums_full[consumer][count % kSumBuffers].arrive();
  }

  /// Gradients of 64 keys or values.
  TW_PTX static void put_rows(const Walk& walk, int first_key, const AttentionRows<T>& to, int dims,
                              const KeySums& sums) {
    const AttentionBackwardSequence of = walk.order().sequence;
    const int thread = int(threadIdx.x) % kWarpgroup;
    const int first = first_key + thread / 32 * 16 + thread % 32 / 4;
    TW_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int key = first + 8 * r;
      T* const row =
          key < of.key_rows ? to.at(of.outer, of.first_key + key, walk.kv_head()) : nullptr;
      tile::cuda::store_fragment_row<T, kDims>(row, dims, sums + 2 * r);
    }
  }

  /// A warp has arrived.
  TW_PTX static void release(tile::cuda::Mbarrier& barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier.arrive();
  }
};

}  // namespace tw::kernels

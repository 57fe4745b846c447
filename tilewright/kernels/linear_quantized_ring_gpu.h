// How weights and tokens come to the warps of linear_quantized_gpu.h: some blocks of k at a time
// through a ring of stages in shared memory, several of which are on their way while one is
// multiplied. A stage has what each warp reads of its panel, then the records of the tiles, which
// warps with the same part of k share.
#pragma once

#include "tilewright/kernels/linear_quantized_tile_gpu.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/program.h"

namespace tw::kernels {

/// What a warp multiplies: parts of a panel's k, one after the other, with tiles of tokens.
struct QuantizedWork {
  const uint8_t* packed;    // header and panels,
  int64_t packed_bytes;     // so many bytes as they should be
  int panel, panels;        // of the warp, of all
  const char* tokens;       // the first tile
  int64_t tile_bytes;       // from one to the next
  int blocks, part_blocks;  // of all k, of a part
  int first_part, parts;    // of the warp
  int tiles;
  int stripe;  // panels of a program; their warps have the same parts
};

/// The block's shared memory: QuantizedTile::kRingBytes of stages, later the sums of its warps. By
/// its name, so that it is read as shared memory.
TW_PTX char* quantized_ring() {
  return tile::cuda::shared_scratch;
}

/// A stage as a warp sees it; what lies beyond the end of k is zero.
struct QuantizedStage {
  const uint8_t* weights;
  const char* tokens;
  int block;  // the first
};

template <class Format, int kRecord>
class QuantizedRing {
 public:
  static constexpr int kBlocks = QuantizedTile::kStageBlocks, kWarps = QuantizedTile::kWarps;

  /// Stops the kernel where `packed` has other bytes than panels of the format: the host cannot
  /// look.
  TW_PTX QuantizedRing(const Format& format, const QuantizedWork& work)
      : format_(format), work_(work), warp_(int(threadIdx.x / 32)) {
    const QuantizedFormat f = format.get();
    const int64_t header = sizeof(QuantizedHeader), of_panel = f.panel_bytes(work.blocks);
    if (work.packed_bytes != header + work.panels * of_panel) __trap();
    panel_ = work.packed + header + work.panel * of_panel;
    const int chunks = f.chunk_blocks < kBlocks ? kBlocks / f.chunk_blocks : 1;
    weight_bytes_ = chunks * f.scale_bytes + kBlocks * int(f.block_bytes());
    tokens_at_ = kWarps * weight_bytes_ + warp_ / work.stripe * work.tiles * kTileBytes;
    stage_bytes_ = kWarps * weight_bytes_ + kWarps / work.stripe * work.tiles * kTileBytes;
    depth_ = QuantizedTile::kRingBytes / stage_bytes_;
    if (depth_ > kMostStages) depth_ = kMostStages;
  }

  /// Calls multiply(stage) for the stages of each part and then end_part(). All threads of the
  /// block take part; the ring is free when it returns.
  template <class Multiply, class EndPart>
  TW_PTX void for_each(Multiply&& multiply, EndPart&& end_part) {
    const int of_part = work_.part_blocks / kBlocks, steps = of_part * work_.parts;
    const int begin = work_.first_part * work_.part_blocks;
    int to = 0;
    const auto begin_copies = [&](int step) {
      if (step < steps) copy(to, begin + step * kBlocks);
      tile::cuda::commit_copies();
      if (++to == depth_) to = 0;
    };
    for (int step = 0; step < depth_ - 1; ++step) begin_copies(step);
    int slot = 0, left = of_part;
    for (int step = 0; step < steps; ++step) {
      wait_for_one();
      __syncthreads();  // the stage is there, and all have left the one before it
      begin_copies(step + depth_ - 1);
      multiply(QuantizedStage{reinterpret_cast<const uint8_t*>(weights(slot)), tokens(slot),
                              begin + step * kBlocks});
      if (++slot == depth_) slot = 0;
      if (--left == 0) end_part(), left = of_part;
    }
    tile::cuda::wait_copies();
    __syncthreads();
  }

 private:
  static constexpr int kMostStages = 4;
  static constexpr int kTileBytes = kBlocks * kRecord;  // of a stage

  TW_PTX char* weights(int slot) const {
    return quantized_ring() + slot * stage_bytes_ + warp_ * weight_bytes_;
  }
  TW_PTX char* tokens(int slot) const {
    return quantized_ring() + slot * stage_bytes_ + tokens_at_;
  }

  /// All stages but those that may be on their way have come, this thread's part of them.
  TW_PTX void wait_for_one() const {
    static_assert(kMostStages == 4);
    if (depth_ == 4)
      tile::cuda::wait_copy_groups<2>();
    else if (depth_ == 3)
      tile::cuda::wait_copy_groups<1>();
    else
      tile::cuda::wait_copy_groups<0>();
  }

  /// `total` bytes, zeros where `there` of them end: by threads `first`, `first` + `step` and so
  /// on, 16 each.
  TW_PTX static void copy(char* to, const void* from, int there, int total, int first, int step) {
    for (int i = first * 16; i < total; i += step * 16)
      tile::cuda::copy_async_or_zero<16>(to + i, static_cast<const char*>(from) + i,
                                         i < there ? 16 : 0);
  }
  TW_PTX void copy(int slot, int block) const {
    const int rest = work_.blocks - block, blocks = rest < 0 ? 0 : rest < kBlocks ? rest : kBlocks;
    const int lane = int(threadIdx.x % 32);
    copy_weights(weights(slot), block, blocks, lane);
    const char* const from = work_.tokens + int64_t{block} * kRecord;
    const int first = warp_ % work_.stripe * 32 + lane, step = work_.stripe * 32;
    for (int t = 0; t < work_.tiles; ++t)
      copy(tokens(slot) + t * kTileBytes, from + t * work_.tile_bytes, blocks * kRecord, kTileBytes,
           first, step);
  }
  /// Of a chunk that has more blocks than a stage, all its scales.
  TW_PTX void copy_weights(char* to, int block, int blocks, int lane) const {
    const QuantizedFormat f = format_.get();
    const uint8_t* const chunk = panel_ + block / f.chunk_blocks * f.chunk_bytes();
    if (f.chunk_blocks <= kBlocks) {
      copy(to, chunk, int(f.panel_bytes(blocks)), weight_bytes_, lane, 32);
      return;
    }
    const int there = blocks * int(f.block_bytes());
    copy(to, chunk, there > 0 ? f.scale_bytes : 0, f.scale_bytes, lane, 32);
    copy(to + f.scale_bytes, chunk + f.scale_bytes + block % f.chunk_blocks * f.block_bytes(),
         there, weight_bytes_ - f.scale_bytes, lane, 32);
  }

  const Format& format_;
  const QuantizedWork& work_;
  const uint8_t* panel_;
  int warp_, weight_bytes_, tokens_at_, stage_bytes_, depth_;
};

}  // namespace tw::kernels

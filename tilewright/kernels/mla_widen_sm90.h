// Latents of 8 bits on Hopper, whose tensor cores multiply them as 16: the warps that load bring
// them through their registers, times their scales, into the swizzled pieces that consumers read.
// Rotated dims have 16 bits and are copied. Keys in pages of any size, or in one tensor.
//
// A lane has units of 16 latents. It copies each to where its first half will be, half a block at a
// time, and the half after before it widens one. Each lane knows where some rows of a block are,
// and tells the others.
#pragma once

#include "tilewright/kernels/mla_block_sm90.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/widen.h"

namespace tw::kernels {

template <class T, class U, MlaBuild kBuild>
struct MlaWiden : MlaBlock<T, kBuild> {
  using Block = MlaBlock<T, kBuild>;
  using Block::kKeys, Block::kPieces, Block::kRotated, Block::kHalfPieces;
  using Block::kRowBytes, Block::kPieceBytes, Block::kGatherWarps;
  using typename Block::Shared;
  using Tile = AttentionTile;
  static constexpr int kUnit = MlaBuild::kUnit, kPieceUnits = MlaBuild::kColumns / kUnit;
  static constexpr int kEach = 2;                                   // units of a lane in a row
  static constexpr int kLanes = kHalfPieces * kPieceUnits / kEach;  // of half a row
  static constexpr int kApart = 32 / kLanes * kGatherWarps;  // rows of a lane are so far apart
  static constexpr int kTogether = 2;                        // rows that are widened at a time
  static_assert(32 % kApart == 0, "rows that lanes ask for are those of one place in Rows");
  static_assert(kKeys / kApart % kTogether == 0);

  const MlaArguments<T, U>& given;

  /// The blocks of a tile; `phases` has a bit for each buffer.
  TW_PTX void load_tile(Shared& shared, const Tile& tile, uint32_t& phases) const {
    const int head = tile.head / given.heads_per_kv;
    Half to{tile.last_block - 1}, from = to;
    Rows rows = find(tile, from.block), next = find(tile, from.block - 1);
    const auto copy_next = [&] {
      shared.k_empty[from.buffer][from.number].wait((phases >> from.buffer & 1) ^ 1);
      copy(shared, rows, from, head);
      if (from.number == 1) {
        copy_rotated(shared, rows, from, head);
        rows = next;
        next = find(tile, from.block - 2);
      }
      tile::cuda::commit_copies();
      from.next();
    };
    copy_next();
    TW_NO_UNROLL
    while (to.block >= tile.first_block) {
      // Consumers give the first half of a pair back when they have all of the pair before.
      const bool ends_pair = to.buffer == 1 && to.number == 1;
      const bool more = from.block >= tile.first_block;
      if (more && !ends_pair) {
        copy_next();
        tile::cuda::wait_copy_groups<1>();
      } else {
        tile::cuda::wait_copy_groups<0>();
      }
      __syncwarp();  // lanes have copied scales for each other
      widen(shared, to);
      __syncwarp();  // and read them
      tile::cuda::fence_async_shared();
      shared.k_full[to.buffer][Block::gathered_with(int(to.first_piece()))].arrive();
      if (to.number == 1) phases ^= 1u << to.buffer;
      to.next();
      if (more && ends_pair) copy_next();
    }
  }

 private:
  /// Of a block, the dims that its own consumer multiplies, then the others.
  struct Half {
    int block;
    unsigned buffer = 0, number = 0;

    TW_PTX void next() {
      if (number == 1) {
        --block;
        buffer ^= 1;
      }
      number ^= 1;
    }
    TW_PTX unsigned first_piece() const { return (number ^ buffer) * kHalfPieces; }
  };
  /// Where the rows of a block are: lane i has the pages of rows i and 32 + i, or the sequence; -1:
  /// there is no such key. Row r of the block is there `first` further than r, less whole pages.
  struct Rows {
    int outer[kKeys / 32];
    int first;
  };
  /// Of halves, two units have one at the least.
  using Scales = float[2][kKeys][kLanes];
  static_assert(sizeof(Scales) <= MlaBuild::kScaleBytes);

  TW_PTX static Scales& scales_of(Shared& shared) {
    return *reinterpret_cast<Scales*>(reinterpret_cast<char*>(&shared) + kBuild.shared_bytes());
  }

  /// Of those that share half a row.
  TW_PTX static unsigned lane() { return threadIdx.x % kLanes; }

  /// Pages divide a block, or are some.
  TW_PTX Rows find(const Tile& tile, int block) const {
    Rows out;
    const int first = block * kKeys, page = given.table ? first / given.page_keys : 0;
    out.first = given.table ? first - page * given.page_keys : tile.kv_base + first;
    TW_UNROLL
    for (int i = 0; i < kKeys / 32; ++i) {
      const int row = i * 32 + int(threadIdx.x % 32);
      const bool exists = block >= tile.first_block && first + row < tile.kv_len;
      out.outer[i] = !exists       ? -1
                     : given.table ? given.table(tile.batch, page + (row >> given.page_shift))
                                   : tile.kv_outer;
    }
    return out;
  }
  /// What all lanes of a warp ask for at a time, of rows on one side of 32.
  TW_PTX static int outer_of(const Rows& rows, unsigned row) {
    return __shfl_sync(~0u, row < 32 ? rows.outer[0] : rows.outer[1], int(row % 32));
  }
  TW_PTX int inner_of(const Rows& rows, unsigned row) const {
    return rows.first + int(row & given.row_mask);
  }

  /// Where a unit's halves are: in chunks of 16 bytes of a line, the one that a lane stores first
  /// and its neighbour. Of every other piece the first is the second half: the eight lanes that
  /// write at a time reach all banks.
  struct Place {
    uint4* line;
    unsigned chunk;

    TW_PTX Place(char* half, unsigned row, unsigned unit) {
      const unsigned piece = unit / kPieceUnits;
      line = reinterpret_cast<uint4*>(half + piece * kPieceBytes + row * kRowBytes);
      chunk = (unit % kPieceUnits * 2 + piece % 2) ^ row % 8;
    }
    TW_PTX uint4& first() const { return line[chunk]; }
    TW_PTX uint4& second() const { return line[chunk ^ 1]; }
  };

  /// Begins to copy half a block and its scales; zeros for what does not exist.
  TW_PTX void copy(Shared& shared, const Rows& rows, const Half& half, int head) const {
    const unsigned first = half.first_piece() * kPieceUnits;
    char* const to = shared.k[half.buffer][half.first_piece()];
    TW_NO_UNROLL
    for (unsigned row = threadIdx.x / kLanes; row < kKeys; row += kApart) {
      const int inner = inner_of(rows, row), there = outer_of(rows, row);
      const unsigned end = there < 0 ? 0 : unsigned(given.latent.dims) / kUnit;  // of the row
      const int outer = there < 0 ? 0 : there;
      const uint4* const from = given.latent.template at<uint4>(outer, inner, head) + first;
      TW_UNROLL
      for (unsigned unit = lane(); unit < kEach * kLanes; unit += kLanes)
        tile::cuda::copy_async_or_zero<16>(&Place(to, row, unit).first(), from + unit,
                                           first + unit < end ? 16 : 0);
      if (given.scales.data == nullptr) continue;
      const unsigned scaled = first + kEach * lane();
      tile::cuda::copy_async_or_zero<4>(&scales_of(shared)[half.number][row][lane()],
                                        given.scales.at(outer, inner, head, scaled),
                                        scaled < end ? 4 : 0);
    }
  }
  TW_PTX void widen(Shared& shared, const Half& half) const {
    char* const to = shared.k[half.buffer][half.first_piece()];
    TW_NO_UNROLL
    for (unsigned row = threadIdx.x / kLanes; row < kKeys; row += kTogether * kApart) {
      uint2 from[kTogether][kEach][2];
      float scale[kTogether][kEach];
      TW_UNROLL
      for (unsigned r = 0; r < kTogether; ++r) TW_UNROLL
      for (unsigned i = 0; i < kEach; ++i) {
        const unsigned unit = lane() + i * kLanes, turned = unit / kPieceUnits % 2;
        const Place at(to, row + r * kApart, unit);
        const auto halves = reinterpret_cast<const uint2*>(&at.first());
        from[r][i][0] = halves[turned], from[r][i][1] = halves[turned ^ 1];
        scale[r][i] = given.scales.data == nullptr
                          ? 1.0f
                          : scales_of(shared)[half.number][row + r * kApart][unit / kEach];
      }
      TW_UNROLL
      for (unsigned r = 0; r < kTogether; ++r) TW_UNROLL
      for (unsigned i = 0; i < kEach; ++i) {
        const Place at(to, row + r * kApart, lane() + i * kLanes);
        at.first() = tile::cuda::widen8<T, U, true>(from[r][i][0], scale[r][i]);
        at.second() = tile::cuda::widen8<T, U, true>(from[r][i][1], scale[r][i]);
      }
    }
  }

  /// Eight lanes a row; zeros for what does not exist.
  TW_PTX void copy_rotated(Shared& shared, const Rows& rows, const Half& half, int head) const {
    constexpr unsigned kChunks = kRowBytes / 16;
    const unsigned at = threadIdx.x % kChunks;
    const int left = (given.rotated.dims - int(at * (16 / sizeof(T)))) * int(sizeof(T));
    const int bytes = left < 0 ? 0 : left < 16 ? left : 16;
    char* const to = shared.k[half.buffer][kRotated];
    TW_NO_UNROLL
    for (unsigned row = threadIdx.x / kChunks; row < kKeys; row += 32 / kChunks * kGatherWarps) {
      const int there = outer_of(rows, row), outer = there < 0 ? 0 : there;
      const uint4* const from =
          given.rotated.template at<uint4>(outer, inner_of(rows, row), head) + at;
      tile::cuda::copy_async_or_zero<16>(to + row * kRowBytes + (at ^ row % 8) * 16, from,
                                         there < 0 ? 0 : bytes);
    }
    shared.k_full[half.buffer][kRotated].arrive_after_copies();
  }
};

}  // namespace tw::kernels

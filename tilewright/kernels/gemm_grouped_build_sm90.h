// What the host and the device agree on about grouped matrix multiplication on Hopper: how out is
// cut into tiles, by sizes that only the device knows, and what the kernel is given. Neutral.
#pragma once

#include "tilewright/kernels/row_groups.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::kernels {

/// Columns of out are rows of a group's matrix, wgmma's 64; rows of out are its columns, of which
/// an instruction has 16 i: a group's rows are dealt to its tiles in equal parts of 16, so that
/// little is multiplied in vain whatever its size.
/// Gated, a tile has the same columns of two matrices, which become half as many of out.
struct GroupedGemmBuild {
  static constexpr int kColumns = 128, kGatedColumns = kColumns / 2, kUnit = 16;
  static constexpr int kMostUnits = 12, kMostRows = kUnit * kMostUnits;
  static constexpr int kStages = 5, kConsumers = 2, kThreads = 128 * (1 + kConsumers);
  static constexpr int kRowBox = 64;      // rows of a that are loaded at once
  static constexpr int kStagedRows = 96;  // of out, stored at once
  static constexpr int kStageBytes = (kColumns + kMostRows) * 128, kStaging = kStagedRows * 128;
  static constexpr int kBarriers = 1024;  // bytes, and what keeps the end aligned
  static constexpr int kSharedBytes = kStages * kStageBytes + kConsumers * kStaging + kBarriers;
};

struct GroupedGemmPlace {
  int group, column;     // of the tile, counted in tiles
  int row, rows, units;  // its first row, how many it has, how many are multiplied
};

/// Where tile t of all groups' tiles is, for rising t: tiles of up to kMostUnits units of kUnit
/// rows. Where the groups have no data there is one, of all rows.
template <int kUnit, int kMostUnits>
class GroupedTileCursor {
 public:
  TW_INLINE GroupedTileCursor(const RowGroups& groups, int64_t rows, int columns)
      : groups_(groups), all_rows_(int(rows)), columns_(columns) {}

  /// Goes to the group of tile t; false behind the last.
  TW_INLINE bool seek(int64_t t) {
    while (t >= first_ + tiles()) {
      if (group_ + 1 >= (groups_.ends ? int(groups_.count()) : 1)) return false;
      first_ += tiles();
      open(group_ + 1);
    }
    return true;
  }
  /// Bands of columns of tiles, so that the blocks running at one time share both operands in L2. A
  /// group of few rows has neighbours share a part of the weight, which L2 does not hold for long.
  TW_INLINE GroupedGemmPlace place(int64_t t) const {
    const int band = row_tiles_ <= 4 ? 1 : 8;
    const int in_group = int(t - first_), first = in_group / (band * row_tiles_) * band;
    const int wide = columns_ - first < band ? columns_ - first : band;
    const int in_band = in_group - first * row_tiles_, tile = in_band / wide;
    const int least = units_ / row_tiles_, more = units_ % row_tiles_;
    const int before = tile * least + (tile < more ? tile : more);
    const int units = least + (tile < more ? 1 : 0);
    const int row = begin_ + before * kUnit, left = end_ - row;
    const int rows = left < units * kUnit ? left : units * kUnit;
    return {group_, first + in_band % wide, row, rows, units};
  }

 private:
  TW_INLINE int64_t tiles() const { return int64_t{row_tiles_} * columns_; }
  TW_INLINE int inside(int64_t row) const {
    return row < 0 ? 0 : row > all_rows_ ? all_rows_ : int(row);
  }
  /// Rows outside a are none of a group's, whatever the offsets say.
  TW_INLINE void open(int group) {
    group_ = group;
    begin_ = groups_.starts ? inside(groups_.starts(group)) : end_;
    end_ = groups_.ends ? inside(groups_.end(group)) : all_rows_;
    const int rows = end_ > begin_ ? end_ - begin_ : 0;
    units_ = (rows + kUnit - 1) / kUnit;
    row_tiles_ = (units_ + kMostUnits - 1) / kMostUnits;
  }

  const RowGroups& groups_;
  int all_rows_, columns_;
  int group_ = -1, begin_ = 0, end_ = 0, units_ = 0, row_tiles_ = 0;
  int64_t first_ = 0;
};
using GroupedGemmCursor = GroupedTileCursor<GroupedGemmBuild::kUnit, GroupedGemmBuild::kMostUnits>;

/// If rows are gathered: which ones of a, and where they lie.
template <class T>
struct GatheredRows {
  View<const int32_t, 1> numbers;
  const T* from;
  uint32_t row_chunks;  // of 16 bytes
  int rows, k;          // of a
};

template <class T>
struct GroupedGemmArguments {
  tile::cuda::TensorMap weight;  // [group, n, k], or 2 n if gated; k innermost, n if transposed
  tile::cuda::TensorMap a;       // [1, m, k], boxes of kRowBox rows
  tile::cuda::TensorMap out;     // [1, m, n], boxes of kUnit rows
  RowGroups groups;
  View<T, 2> rows;  // out
  int column_tiles;
  int k_blocks;           // of 128 bytes
  int activation;         // a GatedActivation, if gated
  View<const T, 1> bias;  // [2 n] if gated, or absent
  GatheredRows<T> gathered;
  ScatteredRows scattered;
};

}  // namespace tw::kernels

// Groups of consecutive rows, one after the other, by where they end. Rows may lie between groups,
// or after the last one, that belong to none. And where the rows of a product of them go.
#pragma once

#include "tilewright/core/view.h"

namespace tw::kernels {

struct RowGroups {
  View<const int32_t, 1> ends;  // [G], rising
  View<const int32_t, 1>
      starts;  // [G], each between the end before and its own; no data: the former

  TW_INLINE int64_t count() const { return ends.size(0); }
  /// Where the group before ends.
  TW_INLINE int64_t floor(int64_t g) const { return g > 0 ? ends(g - 1) : 0; }
  TW_INLINE int64_t begin(int64_t g) const { return starts ? starts(g) : floor(g); }
  TW_INLINE int64_t end(int64_t g) const { return ends(g); }
  TW_INLINE int64_t size(int64_t g) const { return end(g) - begin(g); }

  struct Stretch {
    int64_t begin, end;  // rows
  };
  /// Group g of so many rows in all; without ends there is one, of all of them.
  TW_INLINE Stretch group(int64_t g, int64_t rows) const {
    if (!ends) return {0, rows};
    return {begin(g), end(g)};
  }
  /// The same without what is no row, whatever the offsets say: they may be known to a GPU alone.
  TW_INLINE Stretch group_inside(int64_t g, int64_t rows) const {
    const auto inside = [rows](int64_t i) { return i < 0 ? 0 : i < rows ? i : rows; };
    const Stretch all = group(g, rows);
    return {inside(all.begin), inside(all.end)};
  }
  /// What is in front of group g of so many and belongs to none; behind the last for g = groups.
  TW_INLINE Stretch gap(int64_t g, int64_t groups, int64_t rows) const {
    return {g > 0 ? group(g - 1, rows).end : 0, g < groups ? group(g, rows).begin : rows};
  }

  /// The group that has the row; count() for none.
  TW_INLINE int64_t group_of(int64_t row) const {
    int64_t low = 0, high = count();  // the first group that ends after the row
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (end(middle) > row)
        high = middle;
      else
        low = middle + 1;
    }
    return low < count() && begin(low) <= row ? low : count();
  }
  TW_INLINE int64_t largest() const {
    int64_t most = 0;
    for (int64_t g = 0; g < count(); ++g) most = size(g) > most ? size(g) : most;
    return most;
  }
  /// How many have rows.
  TW_INLINE int64_t occupied() const {
    int64_t groups = 0;
    for (int64_t g = 0; g < count(); ++g) groups += size(g) > 0;
    return groups;
  }
};

/// If rows of the product are not those of out: which ones, and what they are multiplied by.
struct ScatteredRows {
  int64_t count;                     // of the product
  View<const int32_t, 1> numbers{};  // [count], of out, or none of it; no data: each row its own
  View<const float, 1> weights{};    // of rows of out, or no data: 1

  /// The row of an out of so many that row r of the product becomes, or -1.
  TW_INLINE int64_t destination(int64_t r, int64_t out_rows) const {
    const int64_t to = numbers ? numbers(r) : r;
    return to >= 0 && to < out_rows ? to : -1;
  }
  /// What its row of out is multiplied by.
  TW_INLINE float weight(int64_t to) const { return weights && to >= 0 ? weights(to) : 1.0f; }
};

}  // namespace tw::kernels

// The tile registers of AMX: eight matrices of at most 16 rows of 64 bytes, and the products that
// one instruction adds to one of them.
//
//   to[m][n] += sum over q < 16 of a[m][q] . b[q][n]      q counts 4-byte groups of two bf16 or
//   four
//                                                         bytes, "." is their dot product
//
// So rows of a are as they lie in a row-major matrix, and those of b hold, side by side, the groups
// of 16 columns. Tile numbers are template arguments: instructions name registers. Written as
// assembly because the compilers' macros take literal numbers only; nothing else in the library
// touches tiles, so their order as volatile assembly is all that ties the instructions together.
#pragma once

#include "tilewright/core/macros.h"
#include "tilewright/core/types.h"

namespace tw::tile {

inline constexpr int kTileRows = 16;
inline constexpr int kTileRowBytes = 64;

/// The memory format of LDTILECFG, palette 1. Whole tiles, unless told otherwise: of fewer rows of
/// a are as many of the result, and of fewer groups in each of them as many rows of b.
struct alignas(64) TileConfig {
  static constexpr int kTiles = 8;
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

/// Configures the tiles, all zero, of the calling thread, and releases them when it ends: a thread
/// that holds tiles has 8 KiB more to save and restore whenever the system switches it. Loading a
/// configuration takes more than a hundred cycles, so a scope spans a task, not a product.
class TileScope {
 public:
  TW_INLINE explicit TileScope(const TileConfig& config) {
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
  }
  TW_INLINE ~TileScope() { __asm__ volatile("tilerelease"); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

template <int kTile>
TW_INLINE void zero_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

/// Rows are `stride` bytes apart.
template <int kTile>
TW_INLINE void load_tile(const void* from, int64_t stride) {
  __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0"
                   :
                   : "i"(kTile), "r"(from), "r"(stride)
                   : "memory");
}

template <int kTile>
TW_INLINE void store_tile(void* to, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)"
                   :
                   : "i"(kTile), "r"(to), "r"(stride)
                   : "memory");
}

/// float32 from bf16. Denormal operands count as zero, denormal results become zero; the even and
/// the odd elements of each row of a are summed apart, in order, and both sums then join `to`.
template <int kTo, int kA, int kB>
TW_INLINE void dot_bf16_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTo), "i"(kA), "i"(kB));
}

/// int32 from bytes, modulo 2^32, each operand signed or not.
template <bool kSignedA, bool kSignedB, int kTo, int kA, int kB>
TW_INLINE void dot_int8_tiles() {
  if constexpr (kSignedA && kSignedB)
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTo), "i"(kA), "i"(kB));
  else if constexpr (kSignedA)
    __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTo), "i"(kA), "i"(kB));
  else if constexpr (kSignedB)
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTo), "i"(kA), "i"(kB));
  else
    __asm__ volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTo), "i"(kA), "i"(kB));
}

}  // namespace tw::tile

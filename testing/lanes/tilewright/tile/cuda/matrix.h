// Stands in for tile/cuda/matrix.h: what the PTX manual says of ldmatrix, stmatrix and movmatrix.
#pragma once

#include <cstring>

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

/// Calls f(address) with the addresses of all lanes' rows, matrix by matrix.
template <class F>
void with_matrix_rows(const void* own, F&& f) {
  this_warp->addresses[testing::lane()] = static_cast<char*>(const_cast<void*>(own));
  this_warp->meeting.arrive_and_wait();
  f(this_warp->addresses);
  this_warp->meeting.arrive_and_wait();
}

inline void load_matrices(uint32_t (&r)[4], const void* row) {
  with_matrix_rows(row, [&](char* const* rows) {
    for (int matrix = 0; matrix < 4; ++matrix)
      std::memcpy(&r[matrix], rows[8 * matrix + testing::lane() / 4] + testing::lane() % 4 * 4,
                  sizeof r[matrix]);
  });
}
inline void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
  const int column = testing::lane() / 4, first = testing::lane() % 4 * 2;
  with_matrix_rows(row, [&](char* const* rows) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint16_t pair[2];
      for (int i = 0; i < 2; ++i)
        std::memcpy(&pair[i], rows[8 * matrix + first + i] + 2 * column, sizeof pair[i]);
      r[matrix] = pair[0] | uint32_t{pair[1]} << 16;
    }
  });
}
inline void store_matrices(void* row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  const uint32_t words[4] = {r0, r1, r2, r3};
  with_matrix_rows(row, [&](char* const* rows) {
    for (int matrix = 0; matrix < 4; ++matrix)
      std::memcpy(rows[8 * matrix + testing::lane() / 4] + testing::lane() % 4 * 4, &words[matrix],
                  sizeof words[matrix]);
  });
}
inline uint32_t transposed_matrix(uint32_t pair) {
  const int column = testing::lane() / 4, first = testing::lane() % 4 * 2;
  uint32_t out = 0;
  for (int source = 0; source < 32; ++source) {
    const uint32_t words = testing::from_lane(pair, source);
    for (int i = 0; i < 2; ++i)
      if (source / 4 == first + i && source % 4 == column / 2)
        out |= (words >> (16 * (column % 2)) & 0xffffu) << (16 * i);
  }
  return out;
}

}  // namespace tw::tile::cuda

// ldmatrix, stmatrix and movmatrix: 8x8 matrices of 16-bit elements between shared memory and the
// fragments of the matrix instructions. Lane l gives the address of row l % 8 of matrix l / 8.
#pragma once

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

TW_PTX void load_matrices(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Each matrix transposed: rows 2 i and 2 i + 1 of column l / 4, for i = l % 4.
TW_PTX void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Of a matrix in registers, of which lane l has columns 2 (l % 4) and the next of row l / 4.
TW_PTX uint32_t transposed_matrix(uint32_t pair) {
  uint32_t out;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(pair));
  return out;
}
TW_PTX void store_matrices(void* row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(r0), "r"(r1), "r"(r2), "r"(r3)
      : "memory");
}
TW_PTX void store_two_matrices_transposed(void* row, uint32_t r0, uint32_t r1) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(row)),
      "r"(r0), "r"(r1)
      : "memory");
}

}  // namespace tw::tile::cuda

// The tensor memory accelerator: boxes of a tensor in global memory to and from shared memory,
// issued by one thread. Coordinates count elements, innermost first; what lies outside the tensor
// reads as zero and is not written. The innermost
// coordinate of a box in a 128-byte swizzle must be a multiple of 16 bytes: another one is an
// illegal instruction.
#pragma once

#include "tilewright/tile/cuda/mbarrier.h"
#include "tilewright/tile/cuda/tensor_map.h"

namespace tw::tile::cuda {

TW_PTX void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Into L2 only.
TW_PTX void prefetch_box(const TensorMap& map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(&map),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
/// Global to shared memory; the bytes count at `full`.
TW_PTX void load_box(void* smem, const TensorMap& map, Mbarrier& full, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(smem)),
      "l"(&map), "r"(shared_address(&full)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
TW_PTX void load_box(void* smem, const TensorMap& map, Mbarrier& full, int c0, int c1, int c2,
                     int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(smem)),
      "l"(&map), "r"(shared_address(&full)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
TW_PTX void load_box(void* smem, const TensorMap& map, Mbarrier& full, int c0, int c1, int c2,
                     int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(smem)),
      "l"(&map), "r"(shared_address(&full)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
/// The same to the same place of every block of the cluster whose bit is set in `blocks`.
TW_PTX void load_box_multicast(void* smem, const TensorMap& map, Mbarrier& full, int c0, int c1,
                               int c2, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(smem)),
      "l"(&map), "r"(shared_address(&full)), "h"(blocks), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
/// Shared to global memory, part of the group that commit_stores() closes.
TW_PTX void store_box(const TensorMap& map, const void* smem, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
      "r"(shared_address(smem)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
TW_PTX void store_box(const TensorMap& map, const void* smem, int c0, int c1, int c2, int c3,
                      int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::
          "l"(&map),
      "r"(shared_address(smem)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
/// Added to what is there, in the elements' type.
TW_PTX void add_box(const TensorMap& map, const void* smem, int c0, int c1, int c2) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group [%0, {%2, %3, %4}], "
      "[%1];" ::"l"(&map),
      "r"(shared_address(smem)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
TW_PTX void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until at most kPending groups of this thread still read shared memory.
template <int kPending>
TW_PTX void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace tw::tile::cuda

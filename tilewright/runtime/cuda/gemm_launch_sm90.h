// Launching a build of Hopper's matrix multiplication (kernels/gemm_sm90.h). Plain host code.
#pragma once

#include <algorithm>

#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/gemm_reading.h"
#include "tilewright/runtime/cuda/launch.h"

namespace tw::runtime::cuda {

/// All of a kernel's arguments but the epilogue's and what it asks for ahead.
template <class Epilogue, class T, class Out>
kernels::GemmArguments<Out, Epilogue> gemm_arguments(const char* op, const GemmProblem<T, Out>& p,
                                                     const kernels::GemmBuild& build,
                                                     const GemmReading<T>& a,
                                                     const GemmReading<T>& b) {
  constexpr int kTileK = 128 / int(sizeof(T));
  kernels::GemmArguments<Out, Epilogue> to;
  to.a = operand_map(op, a.from, a.transposed ? kTileK : build.tile_m);
  to.b = operand_map(op, b.from, b.transposed ? kTileK : build.tile_n);
  if (p.out.is_tma_writable()) {
    to.out = operand_map(op, p.out, build.transposed_out ? build.box() : 64);
  } else {
    to.out = to.a;  // prefetched and not used
    to.scatter = {p.out.data, p.m, p.n, p.out.row_stride, p.out.column_stride, p.out.batch_stride};
  }
  to.order = kernels::gemm_order(build, p.size());
  to.k_blocks = int((p.k + kTileK - 1) / kTileK);
  to.adds = p.adds;
  to.a_batch = a.from.batch > 1;
  to.b_batch = b.from.batch > 1;
  return to;
}

template <class Out, class Epilogue>
void launch_gemm_sm90(const char* op, Kernel kernel, const kernels::GemmBuild& build,
                      kernels::GemmArguments<Out, Epilogue>& arguments, const Gpu& on,
                      Stream stream) {
  const int64_t clusters = arguments.order.tiles;
  const int64_t most = build.split > 1 ? clusters : on.multiprocessors / build.cluster();
  void* pointers[] = {&arguments};
  check(
      launch_kernel(start_of(clusters * build.cluster(), on), kernel, on,
                    unsigned(std::min(clusters, most) * build.cluster()), unsigned(build.threads()),
                    1, unsigned(build.shared_bytes()), stream, pointers),
      op, ": launching");
}

}  // namespace tw::runtime::cuda

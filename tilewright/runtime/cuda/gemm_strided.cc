// Products by the kernels for any GPU. Plain host code.
#include <algorithm>
#include <type_traits>

#include "tilewright/kernels/gemm_few_rows.h"
#include "tilewright/kernels/gemm_strided_policy.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm.h"
#include "tilewright/runtime/cuda/gemm_module.h"
#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/gemm_reading.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {
namespace {

using kernels::GemmFewRowsBuild;
using kernels::GemmMmaWay;

constexpr int64_t kMostY = 65535;

/// Float32 of few rows; false where it is not.
bool launch_few_rows(kernels::GemmStridedArguments<float>& arguments, const Gpu& on,
                     Stream stream) {
  const int build = GemmFewRowsBuild::choose(arguments, on.multiprocessors);
  if (build < 0) return false;
  void* pointers[] = {&arguments};
  launch_gemm(strided_kernels<float>(on).few_rows[size_t(build)],
              {gemm_blocks(arguments.out.cols, GemmFewRowsBuild::kColumns),
               std::min(arguments.batch, kMostY)},
              GemmFewRowsBuild::kThreads, 0, pointers, stream);
  return true;
}

/// An operand of float32 that lies along k, turned over if `wanted`, for as long as this lives.
class TurnedOver {
 public:
  TurnedOver(kernels::GemmStridedOperand<float>& operand, int64_t batch, bool wanted, const Gpu& on,
             Stream stream)
      : reading_(GemmReading<float>::copied(across(operand, batch))),
        memory_(wanted && lies_along_k(operand) ? reading_.bytes() : 0, stream, "gemm") {
    if (memory_.data() == nullptr) return;
    reading_.copy_to(memory_.data(), gemm_module<float>().realign, on, stream);
    const GemmOperand<const float>& from = reading_.from;
    operand = {as_rows(from.transposed()), from.batch > 1 ? from.batch_stride : 0};
  }

 private:
  static bool lies_along_k(const kernels::GemmStridedOperand<float>& x) {
    return x.rows.lead == 1 && x.rows.col_stride == 1 && x.rows.lead_strides[0] != 1;
  }
  /// Its rows are values of k.
  static GemmOperand<const float> across(const kernels::GemmStridedOperand<float>& x,
                                         int64_t batch) {
    const GemmOperand<const float> one = as_operand(x.rows).transposed();
    return {one.data,
            one.rows,
            one.columns,
            one.row_stride,
            one.column_stride,
            x.batch_stride,
            x.batch_stride == 0 ? 1 : batch};
  }

  GemmReading<float> reading_;
  StreamMemory memory_;
};

/// How a build is launched.
struct StridedLaunch {
  Kernel kernel;
  int tile_m, tile_n, threads, shared_bytes;
};

StridedLaunch strided_launch(kernels::GemmStridedArguments<float>& arguments, int shape,
                             const Gpu& on) {
  const kernels::GemmStridedBuild& build = kernels::kGemmStridedShapes[shape].build;
  arguments.a.choose(), arguments.b.choose();
  return {strided_kernels<float>(on).shapes.with_shared_bytes("gemm", size_t(shape),
                                                              build.shared_bytes(), on),
          build.tile_m, build.tile_n, build.threads(), build.shared_bytes()};
}

/// Of 16-bit elements.
template <class T>
StridedLaunch strided_launch(const kernels::GemmStridedArguments<T>& arguments, int shape,
                             const Gpu& on) {
  const kernels::GemmMmaBuild& build = kernels::kGemmMmaShapes[shape].build;
  const int way = GemmMmaWay::of(arguments).index();
  const int64_t longest = arguments.k_groups.ends ? arguments.k : arguments.k_part;
  return {strided_kernels<T>(on).mma.with_shared_bytes(
              "gemm", size_t(shape * GemmMmaWay::kCount + way), build.most_shared_bytes(), on),
          build.tile_m, build.tile_n, build.threads(), build.shared_bytes(longest)};
}

}  // namespace

template <class T>
kernels::GemmStridedSize strided_size(const kernels::GemmStridedArguments<T>& arguments) {
  return {arguments.batch,
          arguments.out.rows,
          arguments.out.cols,
          arguments.k,
          !GemmMmaWay::of(arguments).copies,
          arguments.out.col_stride != 1 ||
              !kernels::starts_at_words<4>(arguments.out, arguments.out_batch)};
}

template <class T>
void launch_strided(kernels::GemmStridedArguments<T>& arguments,
                    const kernels::GemmStridedChoice& choice, const Gpu& on, Stream stream) {
  const int64_t m = arguments.out.rows, n = arguments.out.cols, batch = arguments.batch;
  arguments.k_part = choice.k_part;
  const int64_t sums = batch * m * arguments.parts_pitch();
  const StreamMemory parts(choice.parts > 1 ? choice.parts * sums * int64_t{sizeof(float)} : 0,
                           stream, "gemm");
  arguments.parts = static_cast<float*>(parts.data());

  const StridedLaunch as = strided_launch(arguments, choice.shape, on);
  int64_t count = choice.parts;
  void* pointers[] = {&arguments, &count};
  launch_gemm(
      as.kernel,
      {gemm_blocks(m, as.tile_m) * gemm_blocks(n, as.tile_n), std::min(batch, kMostY), count},
      as.threads, as.shared_bytes, pointers, stream);
  if (count == 1) return;
  constexpr int kThreads = 256, kResident = 8;
  const int64_t fours = gemm_blocks(sums / 4, kThreads);
  check(launch_kernel(Start::kEarly, strided_kernels<T>(on).sum, on,
                      unsigned(std::min<int64_t>(fours, int64_t{on.multiprocessors} * kResident)),
                      kThreads, 1, 0, stream, pointers),
        "gemm: launching the sum over parts of k");
}

template <class T>
void launch_strided(kernels::GemmStridedArguments<T>& arguments, const Gpu& on, Stream stream) {
  if constexpr (std::is_same_v<T, float>)
    if (launch_few_rows(arguments, on, stream)) return;
  const kernels::GemmStridedSize size = strided_size(arguments);
  const int asked = sizeof(T) == 2 ? asked_gemm_build() - kernels::kGemmShapeCount : -1;
  const kernels::GemmStridedChoice choice =
      kernels::choose_gemm_strided<T>(size, on.multiprocessors, asked);
  if constexpr (std::is_same_v<T, float>) {
    const kernels::GemmStridedTurns turns(choice, size);
    const bool can_turn{supports_hopper(on)};  // its image has the kernel that copies
    const TurnedOver a(arguments.a, size.batch, can_turn && turns.a, on, stream);
    const TurnedOver b(arguments.b, size.batch, can_turn && turns.b, on, stream);
    launch_strided(arguments, choice, on, stream);
  } else {
    launch_strided(arguments, choice, on, stream);
  }
}

template kernels::GemmStridedSize strided_size(const kernels::GemmStridedArguments<float>&);
template kernels::GemmStridedSize strided_size(const kernels::GemmStridedArguments<f16>&);
template kernels::GemmStridedSize strided_size(const kernels::GemmStridedArguments<bf16>&);
template void launch_strided(kernels::GemmStridedArguments<float>&,
                             const kernels::GemmStridedChoice&, const Gpu&, Stream);
template void launch_strided(kernels::GemmStridedArguments<f16>&, const kernels::GemmStridedChoice&,
                             const Gpu&, Stream);
template void launch_strided(kernels::GemmStridedArguments<bf16>&,
                             const kernels::GemmStridedChoice&, const Gpu&, Stream);
template void launch_strided(kernels::GemmStridedArguments<float>&, const Gpu&, Stream);
template void launch_strided(kernels::GemmStridedArguments<f16>&, const Gpu&, Stream);
template void launch_strided(kernels::GemmStridedArguments<bf16>&, const Gpu&, Stream);

}  // namespace tw::runtime::cuda

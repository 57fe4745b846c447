// A gated linear layer on a GPU. Hopper's grouped product gates what it stores, and takes all rows
// as one group; what it does not take is a linear layer into memory of its own, gated by a kernel
// after it.
#include <algorithm>
#include <string_view>

#include "tilewright/core/checked.h"
#include "tilewright/kernels/gemm_gate.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm.h"
#include "tilewright/runtime/cuda/gemm_grouped.h"
#include "tilewright/runtime/cuda/gemm_reading.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {
namespace {

constexpr const char* kName = "gated_linear";
/// So few rows are read at the speed of memory by a linear layer's own kernels alone (one row of
/// 4096 to 14336 features on an H100: 81 us in two, 96 in one).
constexpr int64_t kFewRows = 8;

template <class T>
std::string_view launch_in_two(const kernels::GatedLinear<T>& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  const int64_t m = call.out.rows, columns = call.weight.size(0);
  const StreamMemory memory(checked_mul(checked_mul(m, columns), int64_t{sizeof(T)}), stream,
                            kName);
  T* const both = static_cast<T*>(memory.data());
  const std::string_view answer = launch_own(
      kernels::Linear<T>{call.x, call.weight, call.bias, {}, 0, {}, {}, rows(both, m, columns)},
      device, stream);
  kernels::GemmGateArguments<T> arguments{both, call.out, call.activation};
  constexpr int kThreads = 256, kResident = 8;
  void* pointers[] = {&arguments};
  launch_gemm(gate_kernel<T>(on),
              {.x = std::min<int64_t>(gemm_blocks(m * call.out.cols, kThreads),
                                      int64_t{on.multiprocessors} * kResident)},
              kThreads, 0, pointers, stream);
  wait_if_asked(kName, on, stream);
  return answer;
}

}  // namespace

template <class T>
std::string_view launch_own(const kernels::GatedLinear<T>& call, int device, Stream stream) {
  if (call.out.rows == 0 || call.out.cols == 0) return kPortable;
  if constexpr (GroupedProduct<kernels::GatedLinear<T>>)
    if (call.out.rows > kFewRows && supports_sm90(call, device)) {
      launch_sm90(call, device, stream);
      return "sm_90a";
    }
  return launch_in_two(call, device, stream);
}

template std::string_view launch_own(const kernels::GatedLinear<float>&, int, Stream);
template std::string_view launch_own(const kernels::GatedLinear<f16>&, int, Stream);
template std::string_view launch_own(const kernels::GatedLinear<bf16>&, int, Stream);

}  // namespace tw::runtime::cuda

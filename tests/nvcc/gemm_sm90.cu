// Matrix multiplication for Hopper, every dtype, layout and schedule: it must compile for sm_90a.
#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/gemm_epilogue.h"
#include "tilewright/kernels/gemm_sm90.h"

namespace {

using namespace tw;
using kernels::GemmBuild;

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    entry(const __grid_constant__ typename Kernel::Arguments arguments) {
  extern __shared__ __align__(1024) char memory[];
  Kernel{arguments}(memory);
}

template <class T, class Out, GemmBuild kBuild, class Epilogue = kernels::GemmScale>
void instantiate() {
  using Kernel = kernels::GemmSm90<T, Out, kBuild, Epilogue>;
  entry<Kernel><<<1, Kernel::kThreads>>>({});
}

constexpr GemmBuild cooperative(bool transposed_a, bool transposed_b, int multicast = 1) {
  return {.tile_m = 128,
          .tile_n = 256,
          .stages = 4,
          .staging = 16384,
          .multicast = multicast,
          .transposed_a = transposed_a,
          .transposed_b = transposed_b};
}
constexpr GemmBuild kPingPong{
    .tile_m = 128, .tile_n = 192, .stages = 4, .staging = 24576, .ping_pong = true, .multicast = 2};
constexpr GemmBuild split(int columns) {
  return {.tile_m = 64,
          .tile_n = columns,
          .stages = 8,
          .staging = columns * 128,
          .split = 2,
          .transposed_out = true};
}

template <class T>
void instantiate_halves() {
  instantiate<T, T, cooperative(false, false)>();
  instantiate<T, T, cooperative(false, true)>();
  instantiate<T, T, cooperative(true, false)>();
  instantiate<T, T, cooperative(true, true, 2)>();
  instantiate<T, T, kPingPong>();
  instantiate<T, T, split(8)>();
  instantiate<T, T, split(64)>();
  instantiate<T, T, split(128), kernels::GemmLinear<T, kernels::Gelu>>();
}

}  // namespace

void instantiate_all() {
  instantiate_halves<f16>();
  instantiate_halves<bf16>();
  instantiate<float, float, cooperative(false, false)>();
  instantiate<f8_e4m3fn, bf16, cooperative(false, false)>();
}

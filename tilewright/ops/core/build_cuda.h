// The CUDA build of an operator: what the generated translation units define and the launcher looks
// up. The device code is a fatbin, made by nvcc from the same kernels and embedded as bytes; the
// plans are host code.
#pragma once

#include <cstring>
#include <string_view>
#include <type_traits>

#include "tilewright/core/machine.h"
#include "tilewright/kernels/score_program.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/tile/cuda/alignment.h"

namespace tw::ops {

/// A kernel ready to be launched; the bytes are its tile::cuda::device_kernel.
struct CudaLaunch {
  static constexpr size_t kMaxBytes = 2048;
  tile::Plan plan;
  int spans = 0;  // of a row that a thread takes, where an instance may have several blocks
  int way = 0;    // that the programs go (entry.h)
  kernels::ScoreMods mods;  // that its device code is compiled with
  alignas(16) char kernel[kMaxBytes];
};

namespace detail {
template <class Kernel>
constexpr std::string_view pretty_function() {
  return __PRETTY_FUNCTION__;
}
}  // namespace detail

/// A kernel's type in C++, as the compiler writes it: device code that is compiled at run time
/// names it so.
template <class Kernel>
constexpr std::string_view kernel_type() {
  constexpr std::string_view kText = detail::pretty_function<Kernel>(), kBegin = "Kernel = ";
  constexpr size_t kAt = kText.find(kBegin) + kBegin.size();
  // g++ goes on to say what std::string_view is.
  return kText.substr(kAt, kText.find_first_of(";]", kAt) - kAt);
}

struct CudaEntry {
  void (*prepare)(const void* kernel, const Machine& machine, bool has_clusters,
                  CudaLaunch& launch) = nullptr;
  std::string_view type;  // kernel_type
};

template <class Kernel>
void prepare_cuda(const void* kernel, const Machine& machine, bool has_clusters,
                  CudaLaunch& launch) {
  const auto& host = *static_cast<const Kernel*>(kernel);
  using P = tile::cuda::program_t<Kernel>;
  launch.plan = host.template plan<P>(machine);
  launch.spans = P::kSpans;
  if constexpr (requires { host.options().mods; }) launch.mods = host.options().mods;
  const auto device = tile::cuda::device_kernel(host);
  static_assert(std::is_trivially_copyable_v<decltype(device)>);
  static_assert(std::is_same_v<tile::cuda::program_t<decltype(device)>, P>);
  static_assert(sizeof(device) <= CudaLaunch::kMaxBytes);
  const auto [threads, ranks] = tile::cuda::threads_of(launch.plan, P::kSpans, 0, has_clusters);
  launch.way = tile::cuda::way_of<P>(device, int64_t{threads} * ranks, machine);
  std::memcpy(launch.kernel, &device, sizeof(device));
}

struct CudaBuild {
  const char* image = nullptr;         // the fatbin; null: the operator has no kernel for CUDA
  const CudaEntry* entries = nullptr;  // in the order of Op::Types
};

template <class Op>
CudaBuild cuda_build();

template <class Op, class... Cs>
CudaBuild make_cuda_build(const char* image, Combos<Cs...>) {
  static constexpr CudaEntry kEntries[] = {
      {&prepare_cuda<kernel_for_t<Op, Cs>>, kernel_type<kernel_for_t<Op, Cs>>()}...};
  return {image, kEntries};
}

}  // namespace tw::ops

// The assembler puts the bytes of a file into the object, and a zero behind them.
#define TW_EMBED(symbol, path)                                                               \
  asm(".pushsection .rodata\n.balign 64\n.global " #symbol "\n.hidden " #symbol "\n" #symbol \
      ":\n.incbin \"" path "\"\n.byte 0\n.popsection\n");                                    \
  extern "C" const char symbol[];

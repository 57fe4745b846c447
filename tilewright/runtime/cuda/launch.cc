#include "tilewright/runtime/cuda/launch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "tilewright/core/checked.h"
#include "tilewright/ops/core/score_text.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {
namespace {

constexpr int kClusterDimension = 4, kProgrammaticStreamSerialization = 6;  // CUlaunchAttributeID
constexpr Result kIllegalInstruction = 715, kLaunchFailed = 719;
constexpr int64_t kSharedDefault = 48 << 10, kSharedStatic = 256;
constexpr int64_t kScratchAlignment = 64;
constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;
constexpr int kResidentBlocks = 4;  // per multiprocessor, where scratch is global memory

bool synchronizes() {
  static const bool kSync = [] {
    const char* text = std::getenv("TILEWRIGHT_SYNC");
    return text != nullptr && std::string_view(text) == "1";
  }();
  return kSync;
}

}  // namespace

void wait_if_asked(std::string_view op, const Gpu& gpu, Stream stream) {
  if (!synchronizes()) return;
  int capturing = 0;  // CUstreamCaptureStatus: waiting for a graph's recording would end it
  if (driver().is_capturing(stream, &capturing) == 0 && capturing != 0) return;
  const Result result = driver().synchronize_stream(stream);
  // What require_index does to a kernel.
  const bool is_stopped = result == kIllegalInstruction || result == kLaunchFailed;
  check(result, op, ": running on ", gpu.name,
        is_stopped ? ": an index is out of range, or the kernel is broken" : "");
}

Result launch_kernel(Start start, Kernel kernel, const Gpu& gpu, unsigned blocks, unsigned block_x,
                     unsigned block_y, unsigned shared_bytes, Stream stream, void** arguments,
                     unsigned ranks) {
  LaunchAttribute attributes[2] = {
      {kProgrammaticStreamSerialization, start == Start::kEarly ? 1 : 0, {}},
      {kClusterDimension, static_cast<int>(ranks), {}}};
  const int yz[2] = {1, 1};  // after x
  std::memcpy(attributes[1].rest, yz, sizeof yz);
  const unsigned count = !gpu.has_clusters() ? 0 : ranks > 1 ? 2 : 1;
  const LaunchConfig config{{blocks, 1, 1}, {block_x, block_y, 1}, shared_bytes, stream, attributes,
                            count};
  return driver().launch_kernel_with(&config, kernel, arguments, nullptr);
}

Geometry geometry(const tile::Plan& plan, int spans, int phase, const Gpu& gpu) {
  namespace cuda = tile::cuda;
  Geometry out;
  const int64_t instances = plan.grid[phase];
  const auto [threads, ranks] = cuda::threads_of(plan, spans, phase, gpu.has_clusters());
  out.ranks = static_cast<unsigned>(ranks);
  int64_t per_block = threads > 32 ? 1 : cuda::kSharedBlockThreads / threads;
  per_block = std::min(per_block, instances);
  int64_t most = kMaxBlocks;
  if (plan.scratch_bytes > 0) {
    const int64_t fit = (gpu.shared_bytes - kSharedStatic) / plan.scratch_bytes;
    if (fit > 0) {
      per_block = std::min(per_block, fit);
      out.shared_bytes = static_cast<unsigned>(per_block * plan.scratch_bytes);
    } else {
      most = int64_t{gpu.multiprocessors} * kResidentBlocks;
    }
  }
  const int64_t blocks = std::min((instances + per_block - 1) / per_block, most / out.ranks);
  if (plan.scratch_bytes > 0 && out.shared_bytes == 0)
    out.global_scratch_bytes = blocks * per_block * plan.scratch_bytes;
  out.blocks = static_cast<unsigned>(blocks) * out.ranks;
  out.threads = static_cast<unsigned>(threads);
  out.instances_per_block = static_cast<unsigned>(per_block);
  return out;
}

Module::Module(std::string op, const ops::CudaBuild& build) : op_(std::move(op)), build_(build) {}

void Module::load(const Gpu& gpu) {
  load_kernels(op_, described(gpu), build_.image, [this](std::string_view name, Kernel kernel) {
    const std::string before = "10cuda_entry3runILi";  // cmake/cuda_kernel.cu.in
    const int combo = number_after(name, before);
    if (combo < 0) return;
    const int way = number_after(name, before + std::to_string(combo) + "ELi");
    functions_[{combo, way}].kernel = kernel;
  });
}

Module::Function& Module::find(int combo, const ops::CudaLaunch& prepared, const Gpu& on) {
  if (prepared.mods || !carries_code_for(on.compute_major, on.compute_minor))
    return compiled(combo, prepared, on);
  std::call_once(loaded_, [&] { load(on); });
  return functions_.at({combo, prepared.way});
}

Module::Function& Module::compiled(int combo, const ops::CudaLaunch& prepared, const Gpu& on) {
  const kernels::ScoreMods& mods = prepared.mods;
  const std::string target = architecture(on.compute_major, on.compute_minor);
  const std::lock_guard lock(compiling_);
  Function& function = compiled_[{combo, prepared.way, target, ops::score_mods_key(mods)}];
  if (function.kernel == nullptr) {
    DeviceProgram program = neutral_program(op_, build_.entries[combo].type, prepared.way);
    if (mods) replace_header(program, ops::kPrintedModsPath, ops::print_score_mods(mods));
    const CompiledKernel code = compile_kernel(op_, program, target);
    function.kernel = load_kernel(op_, described(on), code.cubin.data());
  }
  return function;
}

void Module::allow(Function& function, unsigned shared_bytes, const Gpu& on) {
  if (on.id >= Function::kGpus)
    return allow_shared_bytes(op_, function.kernel, static_cast<int>(shared_bytes), on);
  std::atomic<unsigned>& allowed = function.shared_bytes[on.id];
  if (allowed.load() >= shared_bytes) return;
  static std::mutex raising;  // or a smaller limit could be set last
  const std::lock_guard lock(raising);
  if (allowed.load() >= shared_bytes) return;
  allow_shared_bytes(op_, function.kernel, static_cast<int>(shared_bytes), on);
  allowed = shared_bytes;
}

void Module::launch(int combo, const void* kernel, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  ops::CudaLaunch prepared;
  Machine machine;
  machine.l1d_bytes = on.shared_bytes - kSharedStatic;
  build_.entries[combo].prepare(kernel, machine, on.has_clusters(), prepared);
  Function& function = find(combo, prepared, on);
  tile::Plan& plan = prepared.plan;
  plan.scratch_bytes = round_up(plan.scratch_bytes, kScratchAlignment);
  const StreamMemory workspace(plan.workspace_bytes, stream, op_);
  for (int phase = 0; phase < plan.phases; ++phase) {
    if (plan.grid[phase] == 0) continue;
    const Geometry g = geometry(plan, prepared.spans, phase, on);
    const StreamMemory scratch(g.global_scratch_bytes, stream, op_);
    if (g.shared_bytes > kSharedDefault - kSharedStatic) allow(function, g.shared_bytes, on);
    tile::cuda::Launch launch{plan.grid[phase], phase, workspace.data(), scratch.data(),
                              plan.scratch_bytes};
    void* arguments[] = {prepared.kernel, &launch};
    check(launch_kernel(Start::kEarly, function.kernel, on, g.blocks, g.threads,
                        g.instances_per_block, g.shared_bytes, stream, arguments, g.ranks),
          op_, ": launching on ", on.name);
  }
  wait_if_asked(op_, on, stream);
}

}  // namespace tw::runtime::cuda

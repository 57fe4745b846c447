// Launching an operator's kernels on a GPU: nothing here waits for it, and everything goes into the
// caller's stream, so that calls can be captured in a CUDA graph.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "tilewright/ops/core/build_cuda.h"
#include "tilewright/runtime/cuda/device.h"

namespace tw::runtime::cuda {

/// How the instances of a phase are laid out: several in a block, or one in a cluster of blocks.
struct Geometry {
  unsigned blocks = 0, threads = 1, instances_per_block = 1, ranks = 1;
  unsigned shared_bytes = 0;
  int64_t global_scratch_bytes = 0;  // where an instance's scratch exceeds shared memory
};
/// `spans` as CudaLaunch has them.
TW_API Geometry geometry(const tile::Plan& plan, int spans, int phase, const Gpu& gpu);

/// When a kernel starts: once the one before it on the stream has ended, or while that one ends,
/// where the GPU can do that; its threads begin with tile::cuda::wait_for_grids_before(). Blocks
/// that start early lie on whatever multiprocessor was free first. Where many tiles are read
/// through L2 by several of them, that costs more than it saves (docs/notes/gemm_sm90.md, "Behind
/// another kernel").
enum class Start { kInOrder, kEarly };
/// Of a product: early where each multiprocessor has one of its tiles at most.
inline Start start_of(int64_t tiles, const Gpu& gpu) {
  return tiles <= gpu.multiprocessors ? Start::kEarly : Start::kInOrder;
}

/// Launches a kernel. `ranks`: blocks of a cluster.
Result launch_kernel(Start start, Kernel kernel, const Gpu& gpu, unsigned blocks, unsigned block_x,
                     unsigned block_y, unsigned shared_bytes, Stream stream, void** arguments,
                     unsigned ranks = 1);

/// With TILEWRIGHT_SYNC=1, waits for the stream, so that an error names the operator it is of. Not
/// while the stream is captured: nothing runs then.
void wait_if_asked(std::string_view op, const Gpu& gpu, Stream stream);

/// An operator's device code, found when it is first launched: what the library carries, or for
/// other GPUs what NVRTC makes of the same text (jit.h).
class TW_API Module {
 public:
  Module(std::string op, const ops::CudaBuild& build);

  /// Launches every phase of combination `combo`.
  void launch(int combo, const void* kernel, int device, Stream stream);

 private:
  /// A kernel, and how much dynamic shared memory it may have on each of the first GPUs.
  struct Function {
    static constexpr int kGpus = 16;
    Kernel kernel = nullptr;
    std::atomic<unsigned> shared_bytes[kGpus] = {};
  };
  void load(const Gpu& gpu);
  Function& find(int combo, const ops::CudaLaunch& prepared, const Gpu& on);
  Function& compiled(int combo, const ops::CudaLaunch& prepared, const Gpu& on);
  void allow(Function& function, unsigned shared_bytes, const Gpu& on);

  std::string op_;
  ops::CudaBuild build_;
  std::once_flag loaded_;
  std::map<std::pair<int, int>, Function> functions_;  // of the image, by combination and way
  std::mutex compiling_;
  /// By combination, way, architecture and programs.
  std::map<std::tuple<int, int, std::string, std::string>, Function> compiled_;
};

}  // namespace tw::runtime::cuda

#include "tilewright/runtime/context.h"

#include <algorithm>

#include "tilewright/core/tensor.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/machine.h"
#include "tilewright/tile/cpu/fence.h"

namespace tw::runtime {
namespace {

constexpr double kCacheGbs = 30;         // what one core streams from its L2, conservatively
constexpr double kForkSeconds = 1.5e-6;  // less work than this is not worth a fork and a join
constexpr double kChunkSeconds = 4e-6;   // aim of one claim: far above its cost, far below a stall
constexpr double kStreamingBytes = 32 << 20;  // beyond any share of the last cache worth keeping

double estimate_seconds(const ops::Cost& cost, const Machine& machine) {
  return std::max(cost.flops / (machine.f32_fma_gflops * 1e9), cost.bytes / (kCacheGbs * 1e9));
}

int64_t chunk_size(int64_t grid, double seconds, int threads) {
  const double wanted = static_cast<double>(grid) * kChunkSeconds / std::max(seconds, 1e-9);
  const int64_t most = std::max<int64_t>(1, grid / (int64_t{threads} * 4));
  return std::clamp<int64_t>(static_cast<int64_t>(std::min(wanted, 1e15)), 1, most);
}

}  // namespace

Context::Context() : Context(default_pool()) {}
// A build without CPU kernels serves GPUs alone; its launches on the CPU say what is missing.
Context::Context(ThreadPool& pool)
    : Context(pool, available_isas().empty() ? Isa::avx2 : detect_isa()) {}
Context::Context(ThreadPool& pool, Isa isa) : Context(pool, make_machine(isa, pool.threads())) {}
Context::Context(ThreadPool& pool, const Machine& machine)
    : pool_(&pool), machine_(machine), scratch_(static_cast<size_t>(pool.threads())) {
  const std::vector<Isa> available = available_isas();
  if (!available.empty() && std::find(available.begin(), available.end(), isa()) == available.end())
    throw Error(ErrorKind::kUnsupported,
                "this machine or build cannot run kernels for " + std::string(name(isa())));
}

void* Context::Buffer::reserve(int64_t needed) {
  if (needed > bytes) {
    data.reset();  // first: the two together may be more than there is
    bytes = 0;     // also if allocate() throws
    data = allocate(needed);
    bytes = needed;
  }
  return data.get();
}

void Context::launch(const ops::KernelEntry& entry, const void* kernel, const ops::Cost& cost) {
  const tile::Plan plan = entry.plan(kernel, machine_);
  tile::ProgramState base;
  base.machine = &machine_;
  base.streaming = cost.bytes >= kStreamingBytes;
  base.workspace = plan.workspace_bytes > 0 ? workspace_.reserve(plan.workspace_bytes) : nullptr;
  if (plan.scratch_bytes > 0)
    for (Buffer& buffer : scratch_) buffer.reserve(plan.scratch_bytes);

  const double seconds = estimate_seconds(cost, machine_);
  int64_t widest = 0;
  for (int phase = 0; phase < plan.phases; ++phase) widest = std::max(widest, plan.grid[phase]);
  if (widest <= 1 || seconds < kForkSeconds || pool_->threads() == 1) {
    base.scratch = scratch_[0].data.get();
    for (base.phase = 0; base.phase < plan.phases; ++base.phase)
      entry.run(kernel, base, 0, plan.grid[base.phase]);
    if (base.streaming) tile::stream_fence();
    return;
  }
  pool_->parallel_phases(
      plan.phases,
      [&](int phase) {
        const int64_t grid = plan.grid[phase];
        return Work(grid, chunk_size(grid, seconds, pool_->threads()));
      },
      [&](int phase, int64_t begin, int64_t end, int worker) {
        tile::ProgramState state = base;
        state.phase = phase;
        state.scratch = scratch_[static_cast<size_t>(worker)].data.get();
        entry.run(kernel, state, begin, end);
        if (state.streaming) tile::stream_fence();
      });
}

}  // namespace tw::runtime

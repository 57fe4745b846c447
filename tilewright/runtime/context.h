// What a thread needs to run kernels: a pool, an instruction set, the machine's facts, and memory
// for kernels' temporaries. Not safe for use by two threads at once; make one for each.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tilewright/core/machine.h"
#include "tilewright/ops/core/build.h"
#include "tilewright/runtime/thread_pool.h"

namespace tw::runtime {

class TW_API Context {
 public:
  /// The process-wide pool, the best instruction set (or TILEWRIGHT_ISA).
  Context();
  explicit Context(ThreadPool& pool);
  /// Throws kUnsupported when this machine cannot run `isa`.
  Context(ThreadPool& pool, Isa isa);
  /// Schedules as on `machine`, whose instruction set this one must have too.
  Context(ThreadPool& pool, const Machine& machine);

  ThreadPool& pool() const { return *pool_; }
  Isa isa() const { return machine_.isa; }
  const Machine& machine() const { return machine_; }

  /// The CUDA stream (a CUstream or cudaStream_t) that calls on tensors of a GPU go into.
  void* cuda_stream() const { return cuda_stream_; }
  void set_cuda_stream(void* stream) { cuda_stream_ = stream; }

  /// What answered the last call: an instruction set, `sm_90a` for kernels that are Hopper's own
  /// (`sm_90a_tf32` where they multiply float32 as tf32), `cuda` for the portable ones, `reference`
  /// for the definition.
  std::string_view answered_by() const { return answered_by_; }
  void set_answered_by(std::string_view build) { answered_by_ = build; }

  /// Runs every phase of a kernel. `cost` decides how finely it is split and whether its outputs go
  /// around the caches; it changes no result.
  void launch(const ops::KernelEntry& entry, const void* kernel, const ops::Cost& cost);

 private:
  /// Grow-only, so that steady state allocates nothing.
  struct Buffer {
    std::shared_ptr<void> data;
    int64_t bytes = 0;
    void* reserve(int64_t needed);
  };

  ThreadPool* pool_;
  void* cuda_stream_ = nullptr;
  std::string_view answered_by_;
  Machine machine_;
  Buffer workspace_;
  std::vector<Buffer> scratch_;  // one per worker
};

}  // namespace tw::runtime

// What a thread needs to run kernels: a pool, an instruction set, the machine's facts, and memory
// for kernels' temporaries. Not safe for use by two threads at once; make one for each.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tilewright/core/machine.h"
#include "tilewright/ops/core/build.h"
#include "tilewright/runtime/cuda/call_stream.h"
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
  cuda::Stream cuda_stream() const {
    return {cuda_stream_, cuda_allocator_.allocate == nullptr ? nullptr : &cuda_allocator_};
  }
  void set_cuda_stream(void* stream) { cuda_stream_ = stream; }
  /// Where kernels' temporaries on a GPU come from; {}, the driver's pool, at first. They are given
  /// back before a call returns.
  void set_cuda_allocator(const cuda::Allocator& allocator) { cuda_allocator_ = allocator; }

  /// What answered the last call: an instruction set, `sm_90a` for kernels that are Hopper's own
  /// (`sm_90a_tf32` where they multiply float32 as tf32), `cuda` for the portable ones, `reference`
  /// for the definition.
  std::string_view answered_by() const { return answered_by_; }
  void set_answered_by(std::string_view build) { answered_by_ = build; }

  /// Runs every phase of a kernel. `cost` decides how finely it is split and whether its outputs go
  /// around the caches; it changes no result.
  void launch(const ops::KernelEntry& entry, const void* kernel, const ops::Cost& cost);

  /// Memory for what a program hands from launch to launch, for cache lines; what it holds is the
  /// caller's until the next call.
  void* between_launches(int64_t bytes) { return between_launches_.reserve(bytes); }

 private:
  /// Grow-only, so that steady state allocates nothing.
  struct Buffer {
    std::shared_ptr<void> data;
    int64_t bytes = 0;
    void* reserve(int64_t needed);
  };

  ThreadPool* pool_;
  void* cuda_stream_ = nullptr;
  cuda::Allocator cuda_allocator_;
  std::string_view answered_by_;
  Machine machine_;
  Buffer workspace_, between_launches_;
  std::vector<Buffer> scratch_;  // one per worker
};

}  // namespace tw::runtime

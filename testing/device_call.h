// A call's tensors copied to a GPU, with guards around each; outputs come back with fetch().
#pragma once

#include <deque>
#include <vector>

#include "tilewright/ops/core/call.h"
#include "tilewright/runtime/cuda/call_stream.h"
#include "tilewright/runtime/cuda/device.h"

namespace tw::testing {

class DeviceCall {
 public:
  /// The tensors of `host`, as they are now; padding between elements travels too.
  explicit DeviceCall(const ops::Call& host, int device = 0);

  ops::Call& call() { return call_; }
  /// Waits, and copies the outputs and what lies between their elements to where the host's are.
  void fetch();
  /// Whether nothing in front of or behind any tensor was written, nor any input.
  bool guards_intact() const;

 private:
  struct Copied {
    Copied(const runtime::cuda::Gpu& gpu, void* host_data, int64_t reach_bytes, int64_t guard_bytes,
           bool is_output);
    void* host;
    int64_t bytes, offset;  // of the tensor, within the buffer
    bool output;
    runtime::cuda::Buffer buffer;
  };
  ops::Call call_;
  std::deque<Copied> copied_;
};

/// An allocator of workspaces that hold NaN, from the driver's pool: a kernel that reads one before
/// it has written there gives other results.
runtime::cuda::Allocator poisoned_workspaces();

}  // namespace tw::testing

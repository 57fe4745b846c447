// Workspace on a GPU that belongs to a stream.
#pragma once

#include <string>
#include <string_view>

#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Memory that the driver reuses once what was launched on the stream before is done.
class StreamMemory {
 public:
  StreamMemory(int64_t bytes, Stream stream, std::string_view op) : stream_(stream) {
    if (bytes <= 0) return;
    const Result result = driver().allocate_async(&pointer_, static_cast<size_t>(bytes), stream);
    if (result != 0)
      fail(result, {op, ": cannot allocate ", std::to_string(bytes), " bytes of workspace"});
  }
  ~StreamMemory() {
    if (pointer_ != 0) driver().free_async(pointer_, stream_);
  }
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  void* data() const { return reinterpret_cast<void*>(pointer_); }

 private:
  DevicePointer pointer_ = 0;
  Stream stream_;
};

}  // namespace tw::runtime::cuda

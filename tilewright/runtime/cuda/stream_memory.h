// Workspace on a GPU that belongs to a stream.
#pragma once

#include <string>
#include <string_view>

#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {

/// Memory that is used anew once what was launched on the stream before is done: from the caller's
/// allocator, if there is one, or else from the driver's pool.
class StreamMemory {
 public:
  StreamMemory(int64_t bytes, Stream stream, std::string_view op)
      : bytes_(bytes > 0 ? static_cast<size_t>(bytes) : 0), stream_(stream) {
    if (bytes_ == 0) return;
    if (const Allocator* const from = stream_.allocator) {
      data_ = from->allocate(from->user, bytes_, stream_);
      if (data_ == nullptr)
        throw Error(ErrorKind::kOutOfMemory, refused(op) + ": the caller's allocator has none");
      return;
    }
    DevicePointer pointer = 0;
    if (const Result result = driver().allocate_async(&pointer, bytes_, stream_); result != 0)
      fail(result, {refused(op)});
    data_ = reinterpret_cast<void*>(pointer);
  }
  ~StreamMemory() {
    if (data_ == nullptr) return;
    if (const Allocator* const from = stream_.allocator)
      from->free(from->user, data_, bytes_, stream_);
    else
      driver().free_async(reinterpret_cast<DevicePointer>(data_), stream_);
  }
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  void* data() const { return data_; }

 private:
  std::string refused(std::string_view op) const {
    return std::string(op) + ": cannot allocate " + std::to_string(bytes_) + " bytes of workspace";
  }

  size_t bytes_;
  Stream stream_;
  void* data_ = nullptr;
};

}  // namespace tw::runtime::cuda

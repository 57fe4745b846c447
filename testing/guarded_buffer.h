// Memory whose end is the end of a page that may be touched: reading or writing one byte past it
// ends the program, without any sanitizer. The bytes before it hold a pattern that is checked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tw::testing {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(int64_t bytes);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// Whether nothing was written in front of the data.
  bool front_intact() const;

 private:
  std::byte* map_ = nullptr;
  size_t map_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tw::testing

// Where memory lies.
#pragma once

#include <cstdint>
#include <string>

namespace tw {

enum class DeviceType : uint8_t { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;  // of several devices of the type; 0 for the CPU

  static constexpr Device cuda(int index = 0) { return {DeviceType::kCuda, index}; }
  constexpr bool is_cuda() const { return type == DeviceType::kCuda; }
  friend constexpr bool operator==(const Device&, const Device&) = default;

  /// "cpu", "cuda:0"
  std::string describe() const {
    return is_cuda() ? "cuda:" + std::to_string(index) : std::string("cpu");
  }
};

}  // namespace tw

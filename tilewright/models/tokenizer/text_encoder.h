// What turns text into tokens once special tokens have been cut out of it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tw::models {

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// Appends the tokens of `text`, any bytes, to `out`. Safe to call from several threads.
  virtual void encode(std::string_view text, std::vector<int32_t>& out) const = 0;
};

/// The longest text that encoders take, in bytes: positions are 32-bit numbers, and one character
/// of input may become three bytes.
inline constexpr size_t kMaxTextBytes = (size_t(1) << 31) / 4;

}  // namespace tw::models

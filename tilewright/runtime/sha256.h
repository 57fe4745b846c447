// SHA-256, FIPS 180-4: names and checks what is kept on disk.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tilewright/core/macros.h"

namespace tw::runtime {

using Digest = std::array<uint8_t, 32>;

class TW_API Sha256 {
 public:
  Sha256& add(std::string_view bytes);
  /// The length of `field` goes in as well, so that no two lists of fields look alike.
  Sha256& add_field(std::string_view field);
  /// Of all that was added; nothing can be added afterwards.
  Digest digest();

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  uint64_t count_ = 0;  // bytes
};

/// Lower-case hexadecimal.
TW_API std::string hex(const Digest& digest);

}  // namespace tw::runtime

#include "tilewright/runtime/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tw::runtime {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha256::block(const uint8_t* bytes) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = uint32_t(bytes[4 * i]) << 24 | uint32_t(bytes[4 * i + 1]) << 16 |
           uint32_t(bytes[4 * i + 2]) << 8 | bytes[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  std::array<uint32_t, 8> s = state_;  // a b c d e f g h
  for (int i = 0; i < 64; ++i) {
    const uint32_t sum1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const uint32_t first = s[7] + sum1 + choice + kRound[i] + w[i];
    const uint32_t sum0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    std::rotate(s.begin(), s.end() - 1, s.end());
    s[4] += first;
    s[0] = first + sum0 + majority;
  }
  for (size_t i = 0; i < 8; ++i) state_[i] += s[i];
}

Sha256& Sha256::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t at = size_t(count_ % 64), n = std::min(bytes.size(), 64 - at);
    std::memcpy(pending_.data() + at, bytes.data(), n);
    count_ += n;
    bytes.remove_prefix(n);
    if (at + n == 64) block(pending_.data());
  }
  return *this;
}

Sha256& Sha256::add_field(std::string_view field) {
  return add(std::to_string(field.size()) + ":").add(field);
}

Digest Sha256::digest() {
  const uint64_t bits = count_ * 8;
  add(std::string_view("\x80", 1));
  while (count_ % 64 != 56) add(std::string_view("\0", 1));
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = char(uint8_t(bits >> (56 - 8 * i)));
  add({length, 8});
  Digest out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = uint8_t(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::string hex(const Digest& digest) {
  std::string out;
  for (const uint8_t byte : digest) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

}  // namespace tw::runtime

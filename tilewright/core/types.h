// Storage types f16, bf16, f8_e4m3fn, f8_e5m2. They convert and nothing else: arithmetic happens in
// float32 or wider. Conversions round to nearest even and keep NaN, Inf and subnormals. Beside them
// the unsigned integer of each size. Freestanding: also read by NVRTC.
#pragma once

#include "tilewright/core/macros.h"

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;  // as on the host, whose spelling of a kernel's type NVRTC is given
using uint64_t = unsigned long;
#else
#include <stdint.h>
#endif
#if defined(__CUDA_ARCH__)
#include "tilewright/core/types_cuda.h"
#endif

namespace tw {
namespace detail {

template <int kBytes>
struct UintOf;
template <>
struct UintOf<1> {
  using type = uint8_t;
};
template <>
struct UintOf<2> {
  using type = uint16_t;
};
template <>
struct UintOf<4> {
  using type = uint32_t;
};
template <>
struct UintOf<8> {
  using type = uint64_t;
};

TW_INLINE constexpr uint32_t float_bits(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
TW_INLINE constexpr float bits_float(uint32_t x) {
  return __builtin_bit_cast(float, x);
}

/// Decodes a small IEEE-like float. kIeee: the top exponent holds Inf and NaN; otherwise (e4m3fn)
/// only the all-ones pattern is NaN and there is no Inf.
template <int kExpBits, int kManBits, bool kIeee>
TW_INLINE constexpr float decode_minifloat(uint32_t bits) {
  constexpr int kBias = (1 << (kExpBits - 1)) - 1;
  constexpr uint32_t kExpMask = (1u << kExpBits) - 1, kManMask = (1u << kManBits) - 1;
  const uint32_t sign = (bits >> (kExpBits + kManBits)) << 31;
  const uint32_t exp = (bits >> kManBits) & kExpMask, man = bits & kManMask;
  if (exp == kExpMask && (kIeee || man == kManMask))
    return bits_float(sign | 0x7f800000u | (kIeee ? man << (23 - kManBits) : 0x400000u));
  if (exp == 0) {  // subnormal: man * 2^(1 - bias - manbits), exact in float32
    const float scale = bits_float(uint32_t(127 + 1 - kBias - kManBits) << 23);
    const float magnitude = float(man) * scale;
    return sign ? -magnitude : magnitude;
  }
  return bits_float(sign | ((exp + uint32_t(127 - kBias)) << 23) | (man << (23 - kManBits)));
}

/// Encodes to nearest even. Overflow gives Inf (IEEE) or NaN (e4m3fn), as PyTorch does.
template <int kExpBits, int kManBits, bool kIeee>
TW_INLINE constexpr uint32_t encode_minifloat(float value) {
  constexpr int kBias = (1 << (kExpBits - 1)) - 1;
  constexpr uint32_t kExpMask = (1u << kExpBits) - 1, kManMask = (1u << kManBits) - 1;
  constexpr uint32_t kInf = kIeee ? kExpMask << kManBits : (kExpMask << kManBits) | kManMask;
  constexpr uint32_t kNan = kIeee ? (kExpMask << kManBits) | (1u << (kManBits - 1)) : kInf;
  const uint32_t x = float_bits(value);
  const uint32_t sign = (x >> 31) << (kExpBits + kManBits), magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | kNan;
  if (magnitude == 0x7f800000u) return sign | kInf;
  const int exp = int(magnitude >> 23) - 127 + kBias;  // biased exponent in the small format
  if (exp < -kManBits) return sign;                    // below half of the smallest subnormal
  const uint32_t full = (magnitude & 0x7fffffu) | (magnitude >> 23 ? 0x800000u : 0u);
  const int shift = 23 - kManBits + (exp < 1 ? 1 - exp : 0);
  const uint32_t half = 1u << (shift - 1), rest = full & ((1u << shift) - 1);
  uint32_t rounded = full >> shift;
  rounded += (rest > half || (rest == half && (rounded & 1))) ? 1u : 0u;
  // A carry out of the mantissa moves into the exponent by itself; the hidden bit is taken back.
  const uint32_t out = exp < 1 ? rounded : rounded + (uint32_t(exp) << kManBits) - (1u << kManBits);
  return sign | (out >= kInf ? kInf : out);
}

}  // namespace detail

/// The unsigned integer of so many bytes.
template <int kBytes>
using uint_bytes_t = typename detail::UintOf<kBytes>::type;
/// The unsigned integer as wide as T.
template <class T>
using bits_of = uint_bytes_t<int(sizeof(T))>;

struct bf16 {
  uint16_t bits;

  bf16() = default;
  TW_INLINE constexpr explicit bf16(float x) : bits(encode(x)) {}
  TW_INLINE constexpr explicit bf16(double x) : bf16(float(x)) {}
  TW_INLINE constexpr explicit operator float() const {
    return detail::bits_float(uint32_t(bits) << 16);
  }
  TW_INLINE constexpr explicit operator double() const { return double(float(*this)); }
  TW_INLINE static constexpr bf16 from_bits(uint16_t b) {
    bf16 out{};
    out.bits = b;
    return out;
  }

 private:
  TW_INLINE static constexpr uint16_t encode(float x) {
#if defined(__CUDA_ARCH__)
    if (!__builtin_is_constant_evaluated()) return detail::encode_bf16(x);
#endif
    const uint32_t u = detail::float_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return uint16_t((u >> 16) | 0x40u);
    return uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
};

/// A float of kExpBits + kManBits + 1 bits stored in U.
template <class U, int kExpBits, int kManBits, bool kIeee>
struct MiniFloat {
  U bits;

  MiniFloat() = default;
  TW_INLINE constexpr explicit MiniFloat(float x) : bits(encode(x)) {}
  TW_INLINE constexpr explicit MiniFloat(double x) : MiniFloat(float(x)) {}
  TW_INLINE constexpr explicit operator float() const {
#if defined(__CUDA_ARCH__)
    if constexpr (kIsF16)
      if (!__builtin_is_constant_evaluated()) return detail::decode_f16(bits);
#endif
    return detail::decode_minifloat<kExpBits, kManBits, kIeee>(bits);
  }
  TW_INLINE constexpr explicit operator double() const { return double(float(*this)); }
  TW_INLINE static constexpr MiniFloat from_bits(U b) {
    MiniFloat out{};
    out.bits = b;
    return out;
  }

 private:
  static constexpr bool kIsF16 = kExpBits == 5 && kManBits == 10 && kIeee;

  TW_INLINE static constexpr U encode(float x) {
#if defined(__CUDA_ARCH__)
    if constexpr (kIsF16)
      if (!__builtin_is_constant_evaluated()) return detail::encode_f16(x);
#endif
    return U(detail::encode_minifloat<kExpBits, kManBits, kIeee>(x));
  }
};

using f16 = MiniFloat<uint16_t, 5, 10, true>;
using f8_e4m3fn = MiniFloat<uint8_t, 4, 3, false>;
using f8_e5m2 = MiniFloat<uint8_t, 5, 2, true>;

}  // namespace tw

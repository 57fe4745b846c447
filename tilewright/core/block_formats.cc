#include "tilewright/core/block_formats.h"

#include <cmath>
#include <cstring>
#include <string>

#include "tilewright/core/error.h"

namespace tw {
namespace {

int nibble(uint8_t byte, int high) {
  return (byte >> (4 * high)) & 15;
}
int bit(uint8_t byte, int i) {
  return (byte >> i) & 1;
}
int two_bits(uint8_t byte, int i) {
  return (byte >> (2 * i)) & 3;
}

// The code of element i of a 32-element format.
int code4(const uint8_t (&qs)[16], int i) {
  return nibble(qs[i % 16], i / 16);
}
int code5(const uint8_t (&qs)[16], const uint8_t (&qh)[4], int i) {
  return code4(qs, i) | (bit(qh[i / 8], i % 8) << 4);
}

void decode(const Block<DType::kQ4_0>& block, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = float(block.d) * float(code4(block.qs, i) - 8);
}

void decode(const Block<DType::kQ4_1>& block, float* out) {
  for (int i = 0; i < 32; ++i) {
    out[i] = float(block.d) * float(code4(block.qs, i)) + float(block.m);
  }
}

void decode(const Block<DType::kQ5_0>& block, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = float(block.d) * float(code5(block.qs, block.qh, i) - 16);
}

void decode(const Block<DType::kQ5_1>& block, float* out) {
  for (int i = 0; i < 32; ++i) {
    out[i] = float(block.d) * float(code5(block.qs, block.qh, i)) + float(block.m);
  }
}

void decode(const Block<DType::kQ8_0>& block, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = float(block.d) * float(block.qs[i]);
}

void decode(const Block<DType::kIq4Nl>& block, float* out) {
  for (int i = 0; i < 32; ++i) {
    out[i] = float(block.d) * float(kIq4NlValues[code4(block.qs, i)]);
  }
}

void decode(const Block<DType::kMxfp4>& block, float* out) {
  for (int i = 0; i < 32; ++i) {
    out[i] = e8m0_half(block.e) * float(kMxfp4Values[code4(block.qs, i)]);
  }
}

void decode(const Block<DType::kQ2K>& block, float* out) {
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, shift = i / 32 % 4;
    const int q = two_bits(block.qs[32 * half + i % 32], shift);
    const float scale = float(block.d) * float(nibble(block.scales[i / 16], 0));
    const float min = float(block.dmin) * float(nibble(block.scales[i / 16], 1));
    out[i] = scale * float(q) - min;
  }
}

void decode(const Block<DType::kQ3K>& block, float* out) {
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, shift = i / 32 % 4;
    const int low = two_bits(block.qs[32 * half + i % 32], shift);
    const int q = low | (bit(block.hmask[i % 32], i / 32) << 2);
    out[i] = float(block.d) * float(q3_k_scale(block.scales, i / 16)) * float(q - 4);
  }
}

void decode(const Block<DType::kQ4K>& block, float* out) {
  for (int i = 0; i < 256; ++i) {
    const ScaleMin sub = k_scale_min(block.scales, i / 32);
    const int q = nibble(block.qs[32 * (i / 64) + i % 32], i / 32 % 2);
    out[i] = float(block.d) * float(sub.scale) * float(q) - float(block.dmin) * float(sub.min);
  }
}

void decode(const Block<DType::kQ5K>& block, float* out) {
  for (int i = 0; i < 256; ++i) {
    const ScaleMin sub = k_scale_min(block.scales, i / 32);
    const int low = nibble(block.qs[32 * (i / 64) + i % 32], i / 32 % 2);
    const int q = low | (bit(block.qh[i % 32], i / 32) << 4);
    out[i] = float(block.d) * float(sub.scale) * float(q) - float(block.dmin) * float(sub.min);
  }
}

void decode(const Block<DType::kQ6K>& block, float* out) {
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, run = i / 32 % 4;
    const int low = nibble(block.ql[64 * half + 32 * (run % 2) + i % 32], run / 2);
    const int q = low | (two_bits(block.qh[32 * half + i % 32], run) << 4);
    out[i] = float(block.d) * float(block.scales[i / 16]) * float(q - 32);
  }
}

void decode(const Block<DType::kIq4Xs>& block, float* out) {
  for (int i = 0; i < 256; ++i) {
    const int sub = i / 32, j = i % 32;
    const int low = nibble(block.scales_l[sub / 2], sub % 2);
    const int scale = (low | (((block.scales_h >> (2 * sub)) & 3) << 4)) - 32;
    const int q = nibble(block.qs[16 * sub + j % 16], j / 16);
    out[i] = float(block.d) * float(scale) * float(kIq4NlValues[q]);
  }
}

template <DType kType>
void decode_all(const void* blocks, float* out, int64_t n) {
  const auto* bytes = static_cast<const std::byte*>(blocks);
  constexpr int kElements = info(kType).block_elements;
  for (int64_t i = 0; i < n / kElements; ++i) {
    Block<kType> block;
    std::memcpy(&block, bytes + i * int64_t(sizeof(block)), sizeof(block));
    decode(block, out + i * kElements);
  }
}

template <class T>
void convert_all(const void* elements, float* out, int64_t n) {
  const auto* bytes = static_cast<const std::byte*>(elements);
  for (int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, bytes + i * int64_t(sizeof(T)), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

// A byte other than 0 and 1 is not a bool to the compiler; here it counts as true.
template <>
void convert_all<bool>(const void* elements, float* out, int64_t n) {
  const auto* bytes = static_cast<const uint8_t*>(elements);
  for (int64_t i = 0; i < n; ++i) out[i] = bytes[i] != 0 ? 1.0f : 0.0f;
}

// The integer part of v, held to [0, top] whatever v is: NaN and Inf must not reach a cast.
int truncated(float v, int top) {
  return !(v > 0) ? 0 : v >= float(top) ? top : int(v);
}

float reciprocal(float d) {
  return d == 0 ? 0.0f : 1 / d;
}

void encode(const float* x, Block<DType::kQ4_0>& block) {
  float extreme = 0;  // the value of largest magnitude, with its sign: it becomes code 0
  for (int i = 0; i < 32; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  const float d = extreme / -8, inverse = reciprocal(d);
  block.d = f16(d);
  for (int j = 0; j < 16; ++j) {
    const int low = truncated(x[j] * inverse + 8.5f, 15);
    const int high = truncated(x[j + 16] * inverse + 8.5f, 15);
    block.qs[j] = uint8_t(low | (high << 4));
  }
}

void encode(const float* x, Block<DType::kQ4_1>& block) {
  float low_end = x[0], high_end = x[0];
  for (int i = 1; i < 32; ++i) {
    low_end = std::fmin(low_end, x[i]);
    high_end = std::fmax(high_end, x[i]);
  }
  const float d = (high_end - low_end) / 15, inverse = reciprocal(d);
  block.d = f16(d);
  block.m = f16(low_end);
  for (int j = 0; j < 16; ++j) {
    const int low = truncated((x[j] - low_end) * inverse + 0.5f, 15);
    const int high = truncated((x[j + 16] - low_end) * inverse + 0.5f, 15);
    block.qs[j] = uint8_t(low | (high << 4));
  }
}

void encode(const float* x, Block<DType::kQ8_0>& block) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::fmax(largest, std::fabs(x[i]));
  const float d = largest / 127, inverse = reciprocal(d);
  block.d = f16(d);
  for (int i = 0; i < 32; ++i) {
    const float q = std::round(x[i] * inverse);  // ties away from zero, as ggml
    block.qs[i] = int8_t(q < 0 ? -truncated(-q, 127) : truncated(q, 127));
  }
}

template <DType kType>
void encode_all(const float* x, void* blocks, int64_t n) {
  auto* bytes = static_cast<std::byte*>(blocks);
  constexpr int kElements = info(kType).block_elements;
  for (int64_t i = 0; i < n / kElements; ++i) {
    Block<kType> block;
    encode(x + i * kElements, block);
    std::memcpy(bytes + i * int64_t(sizeof(block)), &block, sizeof(block));
  }
}

void check_count(const char* function, DType dtype, int64_t n) {
  const int64_t elements = info(dtype).block_elements;
  if (n >= 0 && n % elements == 0) return;
  throw Error(ErrorKind::kInvalidArgument, std::string(function) + ": n = " + std::to_string(n) +
                                               ", but " + std::string(name(dtype)) +
                                               " comes in blocks of " + std::to_string(elements));
}

}  // namespace

void dequantize(DType dtype, const void* blocks, float* out, int64_t n) {
  check_count("dequantize", dtype, n);
  switch (dtype) {
#define TW_CASE(id, name, kind, type) \
  case DType::id:                     \
    return convert_all<type>(blocks, out, n);
    TW_FOR_EACH_SCALAR_DTYPE(TW_CASE)
#undef TW_CASE
#define TW_CASE(id, name, elements, bytes) \
  case DType::id:                          \
    return decode_all<DType::id>(blocks, out, n);
    TW_FOR_EACH_BLOCK_DTYPE(TW_CASE)
#undef TW_CASE
  }
}

void quantize(DType dtype, const float* x, void* blocks, int64_t n) {
  check_count("quantize", dtype, n);
  switch (dtype) {
    case DType::kQ4_0:
      return encode_all<DType::kQ4_0>(x, blocks, n);
    case DType::kQ4_1:
      return encode_all<DType::kQ4_1>(x, blocks, n);
    case DType::kQ8_0:
      return encode_all<DType::kQ8_0>(x, blocks, n);
    default:
      throw Error(ErrorKind::kUnsupported, "quantize: no conversion from f32 to " +
                                               std::string(name(dtype)) +
                                               "; there is q4_0, q4_1 and q8_0");
  }
}

}  // namespace tw

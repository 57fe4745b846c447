#include "tilewright/ops/core/random_blocks.h"

#include <cstring>

#include "tilewright/core/block_formats.h"

namespace tw::ops {
namespace {

/// SplitMix64 (Steele, Lea & Flood 2014).
struct Generator {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0.5, 1), of either sign.
  float factor() {
    const uint64_t bits = next();
    return (0.5f + 0.5f * float(bits >> 40) * 0x1p-24f) * (bits & 1 ? 1.0f : -1.0f);
  }
};

/// A scale with which the largest codes and sub-scales of the format give about 1.
constexpr float scale_of(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ4_1:
      return 1.0f / 8;
    case DType::kQ5_0:
    case DType::kQ5_1:
      return 1.0f / 16;
    case DType::kQ2K:
      return 1.0f / (15 * 3);
    case DType::kQ3K:
      return 1.0f / (32 * 4);
    case DType::kQ4K:
      return 1.0f / (63 * 8);
    case DType::kQ5K:
      return 1.0f / (63 * 16);
    case DType::kQ6K:
      return 1.0f / (128 * 32);
    case DType::kIq4Xs:
      return 1.0f / (32 * 127);
    default:
      return 1.0f / 127;
  }
}

template <DType kType>
void set_scales(Block<kType>& block, Generator& random) {
  if constexpr (requires { block.d; }) block.d = f16(scale_of(kType) * random.factor());
  if constexpr (requires { block.m; }) block.m = f16(random.factor());
  if constexpr (requires { block.dmin; })
    block.dmin = f16((kType == DType::kQ2K ? 1.0f / 15 : 1.0f / 63) * random.factor());
  if constexpr (requires { block.e; }) block.e = uint8_t(121 + random.next() % 4);
}

}  // namespace

std::vector<uint8_t> random_blocks(DType dtype, int64_t elements, uint64_t seed) {
  const DTypeInfo& format = info(dtype);
  const int64_t blocks = elements / format.block_elements;
  std::vector<uint8_t> out(size_t(blocks * format.block_bytes));
  Generator random{seed};
  for (uint8_t& byte : out) byte = uint8_t(random.next() >> 56);
  for (int64_t i = 0; i < blocks; ++i) {
    uint8_t* const at = out.data() + i * format.block_bytes;
    switch (dtype) {
#define TW_CASE(id, ...)                    \
  case DType::id: {                         \
    Block<DType::id> block;                 \
    std::memcpy(&block, at, sizeof(block)); \
    set_scales(block, random);              \
    std::memcpy(at, &block, sizeof(block)); \
    break;                                  \
  }
      TW_FOR_EACH_BLOCK_DTYPE(TW_CASE)
#undef TW_CASE
      default:
        break;
    }
  }
  return out;
}

}  // namespace tw::ops

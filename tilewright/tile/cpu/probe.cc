#include "tilewright/tile/cpu/probe.h"

#include <immintrin.h>

#include "tilewright/tile/cpu/amx_tiles.h"

// No std templates below: what they instantiate inside a function of a higher instruction set could
// be merged with the baseline's copy.
#define TW_TARGET(isa) __attribute__((target(isa), noinline))
#define TW_AVX2 TW_TARGET("avx2,fma,f16c")
#define TW_AVX512 TW_TARGET("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")
#define TW_AVX512_VNNI TW_TARGET("avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")
#define TW_AVX512_BF16 TW_TARGET("avx2,fma,avx512f,avx512bw,avx512vl,avx512bf16")
#define TW_AVX512_FP16 TW_TARGET("avx2,fma,avx512f,avx512bw,avx512vl,avx512fp16")

#define TW_AMX TW_TARGET("avx2,fma,avx512f,amx-tile,amx-bf16,amx-int8")

// Empty assembly that "changes" a register: keeps the compiler from seeing a loop-invariant or dead
// value. It costs no instruction.
#define TW_OPAQUE_YMM(v) __asm__ volatile("" : "+x"(v))
#define TW_OPAQUE_ZMM(v) __asm__ volatile("" : "+v"(v))

// The accumulators start as zeros that the compiler must take for different values, or it keeps
// one.
#define TW_ZERO_SUMS(reg, sums) \
  for (auto& sum : sums) {      \
    sum = decltype(+sum){};     \
    TW_OPAQUE_##reg(sum);       \
  }

namespace tw::tile {
namespace {

// Latency 4 to 8 cycles times 2 instructions a cycle: at least 8, for vdpbf16ps 16 accumulators.
constexpr int kYmmSums = 10;  // of 16 registers
constexpr int kZmmSums = 24;  // of 32

TW_AVX2 void f32_fma_ymm(int64_t iterations) {
  __m256 sums[kYmmSums];
  TW_ZERO_SUMS(YMM, sums);
  __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(1.0f);
  TW_OPAQUE_YMM(a);
  TW_OPAQUE_YMM(b);
  for (int64_t i = 0; i < iterations; ++i) {
    TW_UNROLL
    for (int j = 0; j < kYmmSums; ++j) sums[j] = _mm256_fmadd_ps(sums[j], a, b);
  }
  for (int j = 0; j < kYmmSums; ++j) TW_OPAQUE_YMM(sums[j]);
}

TW_AVX512 void f32_fma_zmm(int64_t iterations) {
  __m512 sums[kZmmSums];
  TW_ZERO_SUMS(ZMM, sums);
  __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(1.0f);
  TW_OPAQUE_ZMM(a);
  TW_OPAQUE_ZMM(b);
  for (int64_t i = 0; i < iterations; ++i) {
    TW_UNROLL
    for (int j = 0; j < kZmmSums; ++j) sums[j] = _mm512_fmadd_ps(sums[j], a, b);
  }
  for (int j = 0; j < kZmmSums; ++j) TW_OPAQUE_ZMM(sums[j]);
}

TW_AVX512_BF16 void bf16_dot_zmm(int64_t iterations) {
  __m512 sums[kZmmSums];
  TW_ZERO_SUMS(ZMM, sums);
  __m512i bits = _mm512_set1_epi16(0x3c00);  // 2^-7
  TW_OPAQUE_ZMM(bits);
  const __m512bh a = (__m512bh)bits, b = (__m512bh)bits;
  for (int64_t i = 0; i < iterations; ++i) {
    TW_UNROLL
    for (int j = 0; j < kZmmSums; ++j) sums[j] = _mm512_dpbf16_ps(sums[j], a, b);
  }
  for (int j = 0; j < kZmmSums; ++j) TW_OPAQUE_ZMM(sums[j]);
}

TW_AVX512_FP16 void f16_fma_zmm(int64_t iterations) {
  __m512h sums[kZmmSums];
  TW_ZERO_SUMS(ZMM, sums);
  __m512i half = _mm512_set1_epi16(0x3800), one = _mm512_set1_epi16(0x3c00);  // 0.5, 1
  TW_OPAQUE_ZMM(half);
  TW_OPAQUE_ZMM(one);
  const __m512h a = _mm512_castsi512_ph(half), b = _mm512_castsi512_ph(one);
  for (int64_t i = 0; i < iterations; ++i) {
    TW_UNROLL
    for (int j = 0; j < kZmmSums; ++j) sums[j] = _mm512_fmadd_ph(sums[j], a, b);
  }
  for (int j = 0; j < kZmmSums; ++j) TW_OPAQUE_ZMM(sums[j]);
}

TW_AVX2 void int8_dot_ymm(int64_t iterations) {
  __m256i sums[kYmmSums];
  TW_ZERO_SUMS(YMM, sums);
  __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5), ones = _mm256_set1_epi16(1);
  TW_OPAQUE_YMM(b);
  TW_OPAQUE_YMM(ones);
  for (int64_t i = 0; i < iterations; ++i) {
    TW_UNROLL
    for (int j = 0; j < kYmmSums; ++j) {
      TW_OPAQUE_YMM(a);
      const __m256i pairs = _mm256_maddubs_epi16(a, b);
      sums[j] = _mm256_add_epi32(sums[j], _mm256_madd_epi16(pairs, ones));
    }
  }
  for (int j = 0; j < kYmmSums; ++j) TW_OPAQUE_YMM(sums[j]);
}

TW_AVX512 void int8_dot_zmm(int64_t iterations) {
  __m512i sums[kZmmSums];
  TW_ZERO_SUMS(ZMM, sums);
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5), ones = _mm512_set1_epi16(1);
  TW_OPAQUE_ZMM(b);
  TW_OPAQUE_ZMM(ones);
  for (int64_t i = 0; i < iterations; ++i) {
    TW_UNROLL
    for (int j = 0; j < kZmmSums; ++j) {
      TW_OPAQUE_ZMM(a);
      const __m512i pairs = _mm512_maddubs_epi16(a, b);
      sums[j] = _mm512_add_epi32(sums[j], _mm512_madd_epi16(pairs, ones));
    }
  }
  for (int j = 0; j < kZmmSums; ++j) TW_OPAQUE_ZMM(sums[j]);
}

constexpr int kVnniSums = 12;

/// In one piece: given the intrinsic, or one instruction at a time, g++ 12 keeps the sums in
/// memory.
TW_AVX512_VNNI void int8_dot_vnni(int64_t iterations) {
  __m512i s[kVnniSums] = {};
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
  for (int64_t i = 0; i < iterations; ++i) {
#define TW_DOT(sum) "vpdpbusd %13, %12, %" #sum "\n"
    __asm__ volatile(TW_DOT(0) TW_DOT(1) TW_DOT(2) TW_DOT(3) TW_DOT(4) TW_DOT(5) TW_DOT(6) TW_DOT(7)
                         TW_DOT(8) TW_DOT(9) TW_DOT(10) TW_DOT(11)
                     : "+v"(s[0]), "+v"(s[1]), "+v"(s[2]), "+v"(s[3]), "+v"(s[4]), "+v"(s[5]),
                       "+v"(s[6]), "+v"(s[7]), "+v"(s[8]), "+v"(s[9]), "+v"(s[10]), "+v"(s[11])
                     : "v"(a), "v"(b));
#undef TW_DOT
  }
}

// Products of whole tiles, in the block of 2 x 2 that the kernels use. All operands are zero.

constexpr int kTileSums = 4;

TW_AMX void bf16_tiles(int64_t iterations) {
  const TileConfig config;
  const TileScope tiles(config);
  for (int64_t i = 0; i < iterations; ++i) {
    dot_bf16_tiles<0, 4, 6>();
    dot_bf16_tiles<1, 4, 7>();
    dot_bf16_tiles<2, 5, 6>();
    dot_bf16_tiles<3, 5, 7>();
  }
}

TW_AMX void int8_tiles(int64_t iterations) {
  const TileConfig config;
  const TileScope tiles(config);
  for (int64_t i = 0; i < iterations; ++i) {
    dot_int8_tiles<true, true, 0, 4, 6>();
    dot_int8_tiles<true, true, 1, 4, 7>();
    dot_int8_tiles<true, true, 2, 5, 6>();
    dot_int8_tiles<true, true, 3, 5, 7>();
  }
}

// Memory, 512 bytes per step.

TW_AVX2 void read_ymm(const void* from, int64_t bytes) {
  const char* const end = static_cast<const char*>(from) + bytes;
  __m256i sums[8] = {};
  for (const char* p = static_cast<const char*>(from); p < end; p += 512) {
    TW_UNROLL
    for (int j = 0; j < 16; ++j) {
      const __m256i v = _mm256_load_si256(reinterpret_cast<const __m256i*>(p) + j);
      sums[j % 8] = _mm256_or_si256(sums[j % 8], v);
    }
  }
  for (int j = 0; j < 8; ++j) TW_OPAQUE_YMM(sums[j]);
}

TW_AVX512 void read_zmm(const void* from, int64_t bytes) {
  const char* const end = static_cast<const char*>(from) + bytes;
  __m512i sums[8] = {};
  for (const char* p = static_cast<const char*>(from); p < end; p += 512) {
    TW_UNROLL
    for (int j = 0; j < 8; ++j) sums[j] = _mm512_or_si512(sums[j], _mm512_load_si512(p + 64 * j));
  }
  for (int j = 0; j < 8; ++j) TW_OPAQUE_ZMM(sums[j]);
}

template <bool kAround>
TW_AVX2 void write_ymm(void* to, int64_t bytes) {
  char* const end = static_cast<char*>(to) + bytes;
  __m256i v = _mm256_set1_epi32(1);
  TW_OPAQUE_YMM(v);
  for (char* p = static_cast<char*>(to); p < end; p += 512) {
    __m256i* const q = reinterpret_cast<__m256i*>(p);
    TW_UNROLL
    for (int j = 0; j < 16; ++j) {
      if constexpr (kAround)
        _mm256_stream_si256(q + j, v);
      else
        _mm256_store_si256(q + j, v);
    }
  }
  _mm_sfence();
}

template <bool kAround>
TW_AVX512 void write_zmm(void* to, int64_t bytes) {
  char* const end = static_cast<char*>(to) + bytes;
  __m512i v = _mm512_set1_epi32(1);
  TW_OPAQUE_ZMM(v);
  for (char* p = static_cast<char*>(to); p < end; p += 512) {
    __m512i* const q = reinterpret_cast<__m512i*>(p);
    TW_UNROLL
    for (int j = 0; j < 8; ++j) {
      if constexpr (kAround)
        _mm512_stream_si512(q + j, v);
      else
        _mm512_store_si512(q + j, v);
    }
  }
  _mm_sfence();
}

template <bool kAround>
TW_AVX2 void copy_ymm(void* to, const void* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) {
    __m256i* const q = reinterpret_cast<__m256i*>(static_cast<char*>(to) + i);
    const __m256i* const p = reinterpret_cast<const __m256i*>(static_cast<const char*>(from) + i);
    TW_UNROLL
    for (int j = 0; j < 16; ++j) {
      const __m256i v = _mm256_load_si256(p + j);
      if constexpr (kAround)
        _mm256_stream_si256(q + j, v);
      else
        _mm256_store_si256(q + j, v);
    }
  }
  _mm_sfence();
}

template <bool kAround>
TW_AVX512 void copy_zmm(void* to, const void* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) {
    __m512i* const q = reinterpret_cast<__m512i*>(static_cast<char*>(to) + i);
    const __m512i* const p = reinterpret_cast<const __m512i*>(static_cast<const char*>(from) + i);
    TW_UNROLL
    for (int j = 0; j < 8; ++j) {
      const __m512i v = _mm512_load_si512(p + j);
      if constexpr (kAround)
        _mm512_stream_si512(q + j, v);
      else
        _mm512_store_si512(q + j, v);
    }
  }
  _mm_sfence();
}

}  // namespace

// Operations: 8 or 16 float lanes, 32 bf16 or f16, 32 or 64 bytes; two for each multiply-add. A
// product of tiles is that of 16 rows with 16 columns.

ArithmeticProbe f32_fma_probe(Isa isa) {
  if (isa == Isa::avx2) return {2.0 * 8 * kYmmSums, f32_fma_ymm};
  return {2.0 * 16 * kZmmSums, f32_fma_zmm};
}

ArithmeticProbe bf16_dot_probe(Isa isa) {
  if (isa < Isa::avx512_bf16) return {};
  return {2.0 * 32 * kZmmSums, bf16_dot_zmm};
}

ArithmeticProbe f16_fma_probe(Isa isa) {
  if (isa < Isa::avx512_fp16) return {};
  return {2.0 * 32 * kZmmSums, f16_fma_zmm};
}

ArithmeticProbe int8_dot_probe(Isa isa) {
  if (isa == Isa::avx2) return {2.0 * 32 * kYmmSums, int8_dot_ymm};
  if (isa == Isa::avx512) return {2.0 * 64 * kZmmSums, int8_dot_zmm};
  return {2.0 * 64 * kVnniSums, int8_dot_vnni};
}

ArithmeticProbe bf16_tile_probe(Isa isa) {
  if (isa < Isa::amx) return {};
  return {2.0 * kTileSums * 16 * 16 * 32, bf16_tiles};
}

ArithmeticProbe int8_tile_probe(Isa isa) {
  if (isa < Isa::amx) return {};
  return {2.0 * kTileSums * 16 * 16 * 64, int8_tiles};
}

MemoryProbe memory_probe(Isa isa) {
  if (isa == Isa::avx2)
    return {read_ymm, write_ymm<false>, write_ymm<true>, copy_ymm<false>, copy_ymm<true>};
  return {read_zmm, write_zmm<false>, write_zmm<true>, copy_zmm<false>, copy_zmm<true>};
}

void spin_cycles(int64_t cycles) {
  int64_t x = cycles;
  for (int64_t i = 0; i < cycles; i += 16) {
    TW_UNROLL
    for (int j = 0; j < 16; ++j) __asm__ volatile("rorq $7, %0" : "+r"(x));
  }
}

}  // namespace tw::tile

#undef TW_TARGET
#undef TW_AVX2
#undef TW_AVX512
#undef TW_AVX512_VNNI
#undef TW_AVX512_BF16
#undef TW_AVX512_FP16
#undef TW_AMX
#undef TW_OPAQUE_YMM
#undef TW_OPAQUE_ZMM
#undef TW_ZERO_SUMS

// What g++, clang and nvcc have built in and NVRTC lacks; program text for NVRTC begins with it.
#pragma once

#define __builtin_memcpy memcpy
#define __builtin_memset memset

#define __builtin_inff() __builtin_bit_cast(float, 0x7f800000u)
#define __builtin_inf() __builtin_bit_cast(double, 0x7ff0000000000000ull)
#define __builtin_nan(text) __builtin_bit_cast(double, 0x7ff8000000000000ull)
#define __builtin_nanf(text) __builtin_bit_cast(float, 0x7fc00000u)

// By the names of the C library, which NVRTC knows; some are names of the tile language, too.
#define __builtin_cos ::cos
#define __builtin_cosf ::cosf
#define __builtin_exp2f ::exp2f
#define __builtin_expf ::expf
#define __builtin_fabsf ::fabsf
#define __builtin_floorf ::floorf
#define __builtin_fma ::fma
#define __builtin_fmaf ::fmaf
#define __builtin_fmodf ::fmodf
#define __builtin_log2f ::log2f
#define __builtin_logf ::logf
#define __builtin_powf ::powf
#define __builtin_rintf ::rintf
#define __builtin_sin ::sin
#define __builtin_sinf ::sinf
#define __builtin_sqrt ::sqrt
#define __builtin_sqrtf ::sqrtf

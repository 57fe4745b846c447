// The dtypes of PyTorch as DLPack has them.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>

#include "python/src/torch_shim.h"
#include "tilewright/c/tilewright.h"

namespace tw::torch {

struct DtypePair {
  int32_t torch;
  tw_dtype ours;
};

inline const std::array<DtypePair, 20>& dtypes() {
  static const std::array<DtypePair, 20> kPairs = {{
      {aoti_torch_dtype_float32(), {2, 32, 1}},
      {aoti_torch_dtype_bfloat16(), {4, 16, 1}},
      {aoti_torch_dtype_float16(), {2, 16, 1}},
      {aoti_torch_dtype_int32(), {0, 32, 1}},
      {aoti_torch_dtype_int64(), {0, 64, 1}},
      {aoti_torch_dtype_float64(), {2, 64, 1}},
      {aoti_torch_dtype_uint8(), {1, 8, 1}},
      {aoti_torch_dtype_int8(), {0, 8, 1}},
      {aoti_torch_dtype_int16(), {0, 16, 1}},
      {aoti_torch_dtype_bool(), {6, 8, 1}},
      {aoti_torch_dtype_float8_e4m3fn(), {10, 8, 1}},
      {aoti_torch_dtype_float8_e5m2(), {12, 8, 1}},
      // From here on those that the library refuses by their names.
      {aoti_torch_dtype_uint16(), {1, 16, 1}},
      {aoti_torch_dtype_uint32(), {1, 32, 1}},
      {aoti_torch_dtype_uint64(), {1, 64, 1}},
      {aoti_torch_dtype_complex32(), {5, 32, 1}},
      {aoti_torch_dtype_complex64(), {5, 64, 1}},
      {aoti_torch_dtype_complex128(), {5, 128, 1}},
      {aoti_torch_dtype_float8_e4m3fnuz(), {11, 8, 1}},
      {aoti_torch_dtype_float8_e5m2fnuz(), {13, 8, 1}},
  }};
  return kPairs;
}

inline tw_dtype our_dtype(int32_t torch) {
  for (const DtypePair& pair : dtypes())
    if (pair.torch == torch) return pair.ours;
  return {255, 0, 1};  // refused by the library, with the argument's name
}

inline int32_t torch_dtype(const tw_dtype& ours) {
  for (const DtypePair& pair : dtypes())
    if (pair.ours.code == ours.code && pair.ours.bits == ours.bits) return pair.torch;
  throw std::runtime_error("tilewright: an output has a dtype that torch lacks");
}

}  // namespace tw::torch

#include "tilewright/c/dlpack.h"

#include <array>
#include <string_view>

namespace tw::c {

std::optional<DType> from_dlpack(const tw_dtype& dtype) {
#define TW_TRY(id, ...)                                                 \
  if (constexpr tw_dtype d = dlpack_dtype(DType::id);                   \
      d.code == dtype.code && d.bits == dtype.bits && dtype.lanes == 1) \
    return DType::id;
  TW_FOR_EACH_SCALAR_DTYPE(TW_TRY)
#undef TW_TRY
  return std::nullopt;
}

std::string dlpack_name(const tw_dtype& dtype) {
  // DLDataTypeCode, in its order.
  static constexpr std::array<std::string_view, 18> kNames = {"int",
                                                              "uint",
                                                              "float",
                                                              "opaque",
                                                              "bfloat",
                                                              "complex",
                                                              "bool",
                                                              "float8_e3m4",
                                                              "float8_e4m3",
                                                              "float8_e4m3b11fnuz",
                                                              "float8_e4m3fn",
                                                              "float8_e4m3fnuz",
                                                              "float8_e5m2",
                                                              "float8_e5m2fnuz",
                                                              "float8_e8m0fnu",
                                                              "float6_e2m3fn",
                                                              "float6_e3m2fn",
                                                              "float4_e2m1fn"};
  if (dtype.code >= kNames.size()) return "of a dtype that DLPack has no name for";
  std::string out(kNames[dtype.code]);
  if (dtype.code < 7 && out != "bool") out += std::to_string(dtype.bits);
  return dtype.lanes == 1 ? out : out + "x" + std::to_string(dtype.lanes);
}

}  // namespace tw::c

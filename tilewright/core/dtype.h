// What is known of each element type, from one table (dtype_list.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "tilewright/core/dtype_list.h"

namespace tw {

struct DTypeInfo {
  std::string_view name;
  DTypeKind kind;
  int32_t block_elements;  // 1 for scalar types
  int32_t block_bytes;
};

inline constexpr DTypeInfo kDTypes[] = {
#define TW_ROW(id, name, kind, type) {name, DTypeKind::kind, 1, sizeof(type)},
    TW_FOR_EACH_SCALAR_DTYPE(TW_ROW)
#undef TW_ROW
#define TW_ROW(id, name, elements, bytes) {name, DTypeKind::kBlock, elements, bytes},
        TW_FOR_EACH_BLOCK_DTYPE(TW_ROW)
#undef TW_ROW
};
inline constexpr int kDTypeCount = int(sizeof(kDTypes) / sizeof(kDTypes[0]));

constexpr const DTypeInfo& info(DType dtype) {
  return kDTypes[static_cast<int>(dtype)];
}
constexpr std::string_view name(DType dtype) {
  return info(dtype).name;
}
constexpr bool is_block(DType dtype) {
  return info(dtype).kind == DTypeKind::kBlock;
}

/// Bytes of one element of a scalar dtype; bytes of one block of a block format.
constexpr int64_t element_size(DType dtype) {
  return info(dtype).block_bytes;
}

/// The dtype of a C++ element type: dtype_of<float> == DType::kF32.
template <class T>
inline constexpr DType dtype_of = T::no_such_dtype;
#define TW_DTYPE_OF(id, name, kind, type) \
  template <>                             \
  inline constexpr DType dtype_of<type> = DType::id;
TW_FOR_EACH_SCALAR_DTYPE(TW_DTYPE_OF)
#undef TW_DTYPE_OF

/// Looks a dtype up by its name ("bf16", "q4_k"). Returns false when there is none.
constexpr bool find_dtype(std::string_view text, DType& out) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kDTypes[i].name == text) {
      out = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

}  // namespace tw

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/core/tensor.h"

namespace tw {
namespace {

TEST(Arena, TensorsAreAlignedDisjointAndOutliveIt) {
  std::vector<Tensor> tensors;
  {
    Arena arena;
    for (const int64_t bytes : {1, 63, 64, 0, 1 << 20, 33 << 20, 20 << 20, 14 << 20, 5 << 20, 7}) {
      tensors.push_back(Tensor::empty({bytes}, DType::kU8, &arena));
      ASSERT_EQ(tensors.back().bytes(), bytes);
      std::memset(tensors.back().ref().data, int(tensors.size()), size_t(bytes));
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors[i].ref().data) % 64, 0u);
    for (const uint8_t value : tensors[i].span<uint8_t>()) ASSERT_EQ(value, i + 1);
  }
}

TEST(Arena, RefusesWhatTensorsRefuse) {
  Arena arena;
  EXPECT_THROW(Tensor::empty({-1}, DType::kU8, &arena), Error);
  EXPECT_THROW(Tensor::empty({INT64_MAX, 2}, DType::kF32, &arena), Error);
}

}  // namespace
}  // namespace tw

#include "tilewright/runtime/cuda/nvml.h"

#include <gtest/gtest.h>

#include "tilewright/runtime/cuda/device.h"

namespace tw::runtime::cuda {
namespace {

TEST(GpuState, IsAbsentWithItsReasonWhereThereIsNone) {
  GpuState state;
  const Support told = read_gpu_state(1000, state);  // no machine has so many GPUs
  EXPECT_FALSE(told);
  EXPECT_FALSE(told.reason().empty());
  EXPECT_FALSE(gpu_state(1000));
  EXPECT_FALSE(gpu_state(-1));
  if (!availability()) {
    EXPECT_EQ(told.reason(), availability().reason());
  }
}

TEST(GpuState, OfAGpuIsWhatACardCanDo) {
  GpuState state;
  if (const Support told = read_gpu_state(0, state); !told) GTEST_SKIP() << told.reason();
  EXPECT_GT(state.sm_mhz, 100);
  EXPECT_LT(state.sm_mhz, 5000);
  EXPECT_GE(state.power_limit_w, 0);
  EXPECT_LT(state.power_w, 5000);
  EXPECT_LT(state.temperature_c, 120);
}

}  // namespace
}  // namespace tw::runtime::cuda

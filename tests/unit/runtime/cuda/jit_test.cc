#include "tilewright/runtime/cuda/jit.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tilewright/core/error.h"
#include "tilewright/runtime/operators.h"

namespace tw::runtime::cuda {
namespace {

TEST(CudaTargets, CodeRunsOnItsGeneration) {
  EXPECT_TRUE(has_code_for("sm_90a", 9, 0));
  EXPECT_FALSE(has_code_for("sm_90a", 8, 0));
  EXPECT_FALSE(has_code_for("sm_90a", 10, 0));
  EXPECT_FALSE(has_code_for("sm_90a", 12, 0));
  EXPECT_TRUE(has_code_for("sm_90a sm_80", 8, 0));
  EXPECT_TRUE(has_code_for("sm_80", 8, 9));
  EXPECT_FALSE(has_code_for("sm_89", 8, 6));
  EXPECT_FALSE(has_code_for("sm_80", 9, 0));
  EXPECT_TRUE(has_code_for("compute_80", 12, 0));
  EXPECT_FALSE(has_code_for("compute_80", 7, 5));
  EXPECT_FALSE(has_code_for("compute_90a", 10, 0));
  EXPECT_FALSE(has_code_for("", 9, 0));
  EXPECT_EQ(architecture(12, 0), "sm_120");
}

/// Every kernel for GPUs has its text in the library; none needs a header of the C++ library, of
/// the CPU, or of one GPU alone.
TEST(DeviceText, EveryOperatorHasItsHeaders) {
  int programs = 0;
  for (const OperatorInfo& op : operators())
    for (size_t combo = 0; combo < op.gpu_kernels.size(); ++combo) {
      if (op.gpu_kernels[combo].type.empty()) continue;
      const DeviceProgram program = neutral_program(op.name(), op.gpu_kernels[combo].type, 0);
      std::set<std::string> paths;
      for (const DeviceProgram::Header& header : program.headers) paths.insert(header.path);
      ++programs;
      EXPECT_TRUE(paths.contains("tilewright/tile/cuda/entry.h")) << op.name();
      EXPECT_TRUE(paths.contains("tilewright/tile/tile.h")) << op.name();
      bool has_kernel = false;
      for (const std::string& path : paths) {
        has_kernel = has_kernel || path.starts_with("tilewright/kernels/");
        EXPECT_EQ(path.find("/cpu/"), std::string::npos) << op.name() << " " << path;
        EXPECT_EQ(path.find("_sm90"), std::string::npos) << op.name() << " " << path;
      }
      EXPECT_TRUE(has_kernel) << op.name();
    }
  EXPECT_GT(programs, 300);
}

TEST(DeviceText, AKernelsTypeIsWrittenOut) {
  const OperatorInfo& op = find_operator("rms_norm");
  ASSERT_EQ(op.gpu_kernels.size(), 3u);
  EXPECT_EQ(op.gpu_kernels[0].type, "tw::kernels::RmsNorm<float>");
  EXPECT_EQ(op.gpu_kernels[2].type, "tw::kernels::RmsNorm<tw::bf16>");
  EXPECT_TRUE(find_operator("linear_packed").gpu_kernels.empty());
}

TEST(DeviceText, UnknownOperatorsAndDtypesAreRefused) {
  EXPECT_THROW(neutral_program("nothing", "int", 0), Error);
  EXPECT_THROW(gemm_program(DType::kF64), Error);
  const DeviceProgram gemm = gemm_program(DType::kBf16);
  for (const DeviceProgram::Header& header : gemm.headers)
    EXPECT_EQ(header.path.find("_sm90"), std::string::npos) << header.path;
}

}  // namespace
}  // namespace tw::runtime::cuda

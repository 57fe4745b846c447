#include "tilewright/runtime/context.h"

#include <cstdint>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tilewright/core/error.h"

namespace tw::runtime {
namespace {

/// Writes to all of its temporaries.
struct Writer {
  int64_t bytes = 0;
};

const ops::KernelEntry kWriter = {
    [](const void* kernel, const Machine&) {
      tile::Plan plan;
      plan.grid[0] = 1;
      plan.workspace_bytes = plan.scratch_bytes = static_cast<const Writer*>(kernel)->bytes;
      return plan;
    },
    [](const void* kernel, tile::ProgramState& state, int64_t, int64_t) {
      ASSERT_NE(state.workspace, nullptr);
      ASSERT_NE(state.scratch, nullptr);
      const auto bytes = static_cast<size_t>(static_cast<const Writer*>(kernel)->bytes);
      std::memset(state.workspace, 1, bytes);
      std::memset(state.scratch, 1, bytes);
    }};

TEST(Context, HasMemoryAfterThereWasNone) {
  ThreadPool pool(1);
  Context context(pool);
  const auto launch = [&](int64_t bytes) {
    const Writer writer{bytes};
    context.launch(kWriter, &writer, {});
  };
  launch(4096);
  EXPECT_THROW(launch(std::numeric_limits<int64_t>::max()), Error);
  launch(4096);
  launch(8192);
}

}  // namespace
}  // namespace tw::runtime

#include "tilewright/runtime/cuda/stream_memory.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/device_call.h"
#include "testing/op_call.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cuda/stream.h"
#include "tilewright/runtime/operators.h"

namespace tw::runtime::cuda {
namespace {

/// Counts what it gives from a piece of memory, of which nothing is used twice: what is captured in
/// a graph keeps its addresses.
struct Counting {
  std::byte* memory = nullptr;
  size_t size = 0, used = 0;
  int given = 0, back = 0;
  size_t bytes_given = 0, bytes_back = 0;
  StreamHandle stream = nullptr;

  Allocator allocator() { return {allocate, free, this}; }
  static void* allocate(void* user, size_t bytes, StreamHandle stream) {
    auto& self = *static_cast<Counting*>(user);
    if (bytes > self.size - self.used) return nullptr;
    void* const out = self.memory + self.used;
    self.used += (bytes + 255) / 256 * 256;
    ++self.given;
    self.bytes_given += bytes;
    self.stream = stream;
    return out;
  }
  static void free(void* user, void*, size_t bytes, StreamHandle stream) {
    auto& self = *static_cast<Counting*>(user);
    ++self.back;
    self.bytes_back += bytes;
    EXPECT_EQ(stream, self.stream);
  }
  void expect_all_back() const {
    EXPECT_EQ(given, back);
    EXPECT_EQ(bytes_given, bytes_back);
  }
};

TEST(StreamMemory, ComesFromTheCallersAllocator) {
  alignas(256) std::byte memory[1024];
  Counting counting{memory, sizeof memory};
  const Allocator allocator = counting.allocator();
  int stream = 0;  // nothing looks into it
  {
    const StreamMemory first(100, {&stream, &allocator}, "op"),
        none(0, {&stream, &allocator}, "op");
    EXPECT_EQ(first.data(), memory);
    EXPECT_EQ(none.data(), nullptr);
    EXPECT_EQ(counting.given, 1);
    EXPECT_EQ(counting.back, 0);
    EXPECT_EQ(counting.stream, &stream);
  }
  counting.expect_all_back();
}

TEST(StreamMemory, ThatIsRefusedNamesTheOperator) {
  Counting counting;
  const Allocator allocator = counting.allocator();
  try {
    const StreamMemory memory(100, {nullptr, &allocator}, "fused_experts");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    EXPECT_EQ(std::string(error.what()),
              "fused_experts: cannot allocate 100 bytes of workspace: the caller's allocator has "
              "none");
  }
  EXPECT_EQ(counting.back, 0);
}

TEST(StreamMemory, ContextHandsItOn) {
  Context context;
  EXPECT_EQ(context.cuda_stream().allocator, nullptr);
  Counting counting;
  context.set_cuda_allocator(counting.allocator());
  ASSERT_NE(context.cuda_stream().allocator, nullptr);
  EXPECT_EQ(context.cuda_stream().allocator->user, &counting);
  context.set_cuda_allocator({});
  EXPECT_EQ(context.cuda_stream().allocator, nullptr);
}

TEST(StreamMemory, NullIsTheDefaultStreamAgain) {
  Context context;
  EXPECT_EQ(context.cuda_stream().handle, nullptr);
  int other = 0;
  context.set_cuda_stream(&other);
  EXPECT_EQ(context.cuda_stream().handle, &other);
  context.set_cuda_stream(nullptr);
  EXPECT_EQ(context.cuda_stream().handle, nullptr);
}

/// fused_experts on a GPU, some temporaries of which are kernels' and some its own.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!availability()) GTEST_SKIP() << availability().reason();
    if (!op_.on_cuda) GTEST_SKIP() << "this build has no kernels for GPUs";
    const auto spec = testing::CaseSpec::parse(*op_.schema, "N=33 H=64 E=4 F=64 K=2");
    host_.emplace(op_, op_.combos[0], spec, 1, testing::Layout::kAligned);
    buffer_.emplace(gpu(0), int64_t{64} << 20);
    counting_.memory = static_cast<std::byte*>(buffer_->data());
    counting_.size = size_t(buffer_->bytes());
    stream_.emplace(gpu(0));
    context_.set_cuda_stream(stream_->get());
  }
  std::vector<std::byte> outputs_of(testing::DeviceCall& call) const {
    stream_->synchronize();
    call.fetch();
    std::vector<std::byte> out;
    for (const TensorRef& output : host_->outputs()) {
      const auto* data = static_cast<const std::byte*>(output.data);
      out.insert(out.end(), data, data + output.count() * element_size(output.dtype));
    }
    return out;
  }

  const OperatorInfo& op_ = find_operator("fused_experts");
  std::optional<testing::OpCall> host_;
  std::optional<Buffer> buffer_;
  std::optional<OwnStream> stream_;
  Counting counting_;
  Context context_;
};

TEST_F(OnGpu, ResultsAreTheSame) {
  const CurrentContext current(gpu(0));
  std::vector<std::vector<std::byte>> results;
  for (const bool own : {false, true}) {
    if (own) context_.set_cuda_allocator(counting_.allocator());
    testing::DeviceCall call(host_->call());
    op_.run(call.call(), context_);
    results.push_back(outputs_of(call));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_GT(counting_.given, 0);
  EXPECT_EQ(counting_.stream, stream_->get().handle);
  counting_.expect_all_back();
}

/// CUDA's legacy default stream, which others wait for: its results are there without a wait for
/// it.
TEST_F(OnGpu, NullIsTheDefaultStream) {
  const CurrentContext current(gpu(0));
  context_.set_cuda_allocator(counting_.allocator());
  testing::DeviceCall own(host_->call()), by_default(host_->call());
  op_.run(own.call(), context_);
  const std::vector<std::byte> want = outputs_of(own);
  context_.set_cuda_stream(nullptr);
  op_.run(by_default.call(), context_);
  EXPECT_EQ(counting_.stream, nullptr);
  by_default.fetch();
  EXPECT_EQ(outputs_of(by_default), want);
  counting_.expect_all_back();
}

TEST_F(OnGpu, CallsAreCaptured) {
  const CurrentContext current(gpu(0));
  context_.set_cuda_allocator(counting_.allocator());
  testing::DeviceCall call(host_->call());
  op_.run(call.call(), context_);  // kernels are loaded before something is captured
  const std::vector<std::byte> once = outputs_of(call);
  const Recording recording(*stream_, [&] { op_.run(call.call(), context_); });
  const int given = counting_.given;
  for (int i = 0; i < 3; ++i) recording.timed_replay();
  EXPECT_EQ(counting_.given, given);
  counting_.expect_all_back();
  EXPECT_EQ(outputs_of(call), once);
}

TEST_F(OnGpu, CallsWithoutMemoryFail) {
  const CurrentContext current(gpu(0));
  counting_.size = 0;
  context_.set_cuda_allocator(counting_.allocator());
  testing::DeviceCall call(host_->call());
  try {
    op_.run(call.call(), context_);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("fused_experts: cannot allocate"), std::string::npos)
        << error.what();
  }
  counting_.expect_all_back();
}

}  // namespace
}  // namespace tw::runtime::cuda

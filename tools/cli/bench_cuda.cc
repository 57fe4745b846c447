#include "tools/cli/bench_cuda.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "testing/device_call.h"
#include "testing/op_call.h"
#include "tilewright/runtime/cuda/stream.h"
#include "tools/cli/quantile.h"

namespace tw::cli {
namespace {

namespace cuda = runtime::cuda;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr double kRecordedSeconds = 2e-3;         // far above what a replay itself costs
constexpr int64_t kCopyBytes = int64_t{1} << 28;  // as a large operand has, above any L2

/// Seconds of single replays for about `seconds`, in their order, after a first one.
std::vector<double> measure(const cuda::Recording& recording, double seconds) {
  recording.timed_replay();
  std::vector<double> times;
  const auto begin = Clock::now();
  do times.push_back(recording.timed_replay());
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds || times.size() < 5);
  return times;
}

}  // namespace

json gpu_limits(int device) {
  const cuda::Gpu& gpu = cuda::gpu(device);
  const cuda::CurrentContext current(gpu);
  const cuda::OwnStream stream(gpu);
  const cuda::Buffer from(gpu, kCopyBytes), to(gpu, kCopyBytes);
  // By our own kernel: the driver's copy draws a fifth less on some GPUs.
  const auto there = [device](const cuda::Buffer& buffer) {
    return TensorRef{.data = buffer.data(),
                     .dtype = DType::kF32,
                     .rank = 1,
                     .sizes = {kCopyBytes / int64_t{sizeof(float)}},
                     .strides = {1},
                     .device = Device::cuda(device)};
  };
  const runtime::OperatorInfo& op = runtime::find_operator("copy");
  ops::Call call(*op.schema);
  call.set("x", there(from)).set("out", there(to));
  runtime::Context context;
  context.set_cuda_stream(stream.get());
  op.run(call, context);  // found before it is recorded
  const cuda::Recording copies(stream, [&] {
    for (int i = 0; i < 4; ++i) op.run(call, context);
  });
  const double copy = quantile(measure(copies, 0.2), 0.5) / 4;
  return {{"device", "cuda:" + std::to_string(device)},
          {"name", gpu.name},
          {"multiprocessors", gpu.multiprocessors},
          {"l2_bytes", gpu.l2_bytes},
          {"copy_gbs", 2 * double(kCopyBytes) / copy * 1e-9}};
}

json bench_on_gpu(const runtime::OperatorInfo& op, const std::vector<DType>& combo,
                  const ops::Case& workload, int device, double seconds, double copy_gbs) {
  const cuda::Gpu& gpu = cuda::gpu(device);
  const cuda::CurrentContext current(gpu);
  const cuda::OwnStream stream(gpu);
  const auto spec = testing::CaseSpec::parse(*op.schema, workload.text);
  testing::OpCall host(op, combo, spec, 1, testing::Layout::kAligned);
  const ops::Cost cost = op.cost(host.call());
  // Enough copies that none is found in the L2 cache when its turn comes again; a small call is
  // measured there, as it is in a model.
  const double wanted = 3 * double(gpu.l2_bytes);
  const int copies =
      cost.bytes < 1e6 ? 1 : int(std::clamp(wanted / std::max(cost.bytes, 1.0) + 1, 1.0, 16.0));
  std::deque<testing::DeviceCall> calls;
  for (int i = 0; i < copies; ++i) calls.emplace_back(host.call(), device);

  runtime::Context context;
  context.set_cuda_stream(stream.get());
  const auto issue = [&](int count) {
    for (int i = 0; i < count; ++i) op.run(calls[size_t(i % copies)].call(), context);
  };
  issue(copies);
  stream.synchronize();
  const double once =
      std::max(cuda::Recording(stream, [&] { issue(copies); }).timed_replay() / copies, 1e-7);
  const int rounds = std::max(1, int(kRecordedSeconds / (once * copies)));
  const int count = std::min(rounds, 256) * copies;
  const cuda::Recording recording(stream, [&] { issue(count); });
  std::vector<double> times = measure(recording, seconds);
  for (double& time : times) time /= count;
  const auto at = [&](double q) { return quantile(times, q); };
  const std::optional<cuda::GpuState> state = recording.state_under_load(at(0.5) * count);
  const auto begin = Clock::now();
  for (int i = 0; i < 1000; ++i) op.run(calls[0].call(), context);
  const double host_seconds = std::chrono::duration<double>(Clock::now() - begin).count() / 1000;
  stream.synchronize();
  json row{{"op", op.name()},
           {"workload", workload.label},
           {"case", workload.text},
           {"device", "cuda:" + std::to_string(device)},
           {"us", at(0.5) * 1e6},
           {"us_p10", at(0.1) * 1e6},
           {"us_p90", at(0.9) * 1e6},
           {"runs", times.size()},
           {"us_samples", kept_samples(times)},
           {"copies", copies},
           {"host_us", host_seconds * 1e6},
           {"gflops", cost.flops / at(0.5) * 1e-9},
           {"gbs", cost.bytes / at(0.5) * 1e-9},
           {"limit", "DRAM copy"},
           {"fraction_of_limit", cost.bytes / at(0.5) * 1e-9 / copy_gbs}};
  if (state) {
    row["clock_mhz"] = state->sm_mhz;
    row["power_w"] = state->power_w;
  }
  return row;
}

}  // namespace tw::cli

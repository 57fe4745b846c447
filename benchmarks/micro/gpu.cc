#include "benchmarks/micro/gpu.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

#include "benchmarks/micro/gpu_shapes.h"
#include "tilewright/built_cuda.h"
#include "tilewright/core/tensor.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/stream.h"
#include "tilewright/runtime/operators.h"

namespace tw::bench {
namespace {

using namespace tw::runtime;
using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 1;                     // of a row: clocks settle within some 100 ms
constexpr int64_t kArrayBytes = int64_t{1} << 28;  // as a large operand has, above any L2
constexpr int64_t kVectorBytes = 16;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

template <class F>
double seconds_of(F&& f) {
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Launches the kernels of gpu_kernels.cu, and collects rows.
class Meter {
 public:
  explicit Meter(const cuda::Gpu& gpu) : gpu_(gpu), stream_(gpu) {
    out_.name = gpu.name;
    out_.multiprocessors = gpu.multiprocessors;
    if (is_hopper())
      cuda::load_kernels(
          "tilewright-micro", cuda::described(gpu), gpu_image(),
          [&](std::string_view name, cuda::Kernel kernel) { kernels_.emplace(name, kernel); });
  }
  bool is_hopper() const { return gpu_.compute_major == 9 && gpu_.compute_minor == 0; }
  const cuda::Gpu& gpu() const { return gpu_; }
  const cuda::OwnStream& stream() const { return stream_; }
  cuda::Kernel kernel(const std::string& name) const { return kernels_.at("micro_" + name); }
  unsigned multiprocessors() const { return unsigned(gpu_.multiprocessors); }
  GpuLimits& out() { return out_; }

  template <class... Args>
  void launch_in(cuda::Stream stream, const std::string& name, unsigned blocks, unsigned threads,
                 unsigned shared_bytes, Args... args) const {
    void* pointers[sizeof...(args) + 1] = {&args...};
    cuda::check(cuda::driver().launch_kernel(kernel(name), blocks, 1, 1, threads, 1, 1,
                                             shared_bytes, stream, pointers, nullptr),
                "tilewright-micro: launching ", name);
  }
  template <class... Args>
  void launch(const std::string& name, unsigned blocks, int threads, int shared_bytes,
              Args... args) const {
    launch_in(stream_.get(), name, blocks, unsigned(threads), unsigned(shared_bytes), args...);
  }

  void add(const std::string& name, const std::string& unit, double value,
           const std::optional<cuda::GpuState>& state = std::nullopt) {
    std::fprintf(stderr, "%-40s %10.5g %s\n", name.c_str(), value, unit.c_str());
    out_.rows.push_back({name, unit, value, state});
  }
  /// A row whose `amount` is done by what `issue` launches: amount / seconds, or its inverse.
  void add_rate(const std::string& name, const std::string& unit, double amount,
                const std::function<void()>& issue, bool is_time = false) {
    const cuda::Recording recording(stream_, issue);
    std::vector<double> times;
    recording.timed_replay();
    const auto begin = Clock::now();
    do times.push_back(recording.timed_replay());
    while (std::chrono::duration<double>(Clock::now() - begin).count() < kSeconds ||
           times.size() < 5);
    const double seconds = median(times);
    add(name, unit, is_time ? seconds / amount : amount / seconds,
        recording.state_under_load(seconds));
  }

 private:
  const cuda::Gpu& gpu_;
  cuda::OwnStream stream_;
  std::map<std::string, cuda::Kernel, std::less<>> kernels_;
  GpuLimits out_;
};

void measure_driver_copy(Meter& meter, const cuda::Buffer& from, const cuda::Buffer& to) {
  constexpr int kCopies = 16;
  meter.add_rate("copy memory by the driver", "GB/s", 2e-9 * kCopies * double(kArrayBytes), [&] {
    for (int i = 0; i < kCopies; ++i)
      cuda::check(cuda::driver().copy_on_device(reinterpret_cast<uint64_t>(to.data()),
                                                reinterpret_cast<uint64_t>(from.data()),
                                                size_t{kArrayBytes}, meter.stream().get()),
                  "cuda: cuMemcpyDtoDAsync");
  });
}

void measure_memory(Meter& meter, const cuda::Buffer& a, const cuda::Buffer& b) {
  constexpr int kLaunches = 16;  // of a hundred microseconds
  const unsigned blocks = 2 * meter.multiprocessors();
  const int64_t at_once = int64_t{blocks} * kMemoryThreads * kVectorsAtOnce;
  const int64_t vectors = kArrayBytes / kVectorBytes / at_once * at_once;
  const double gigabytes = 1e-9 * kLaunches * double(vectors * kVectorBytes);
  const auto repeated = [](auto issue) {
    return [issue] {
      for (int i = 0; i < kLaunches; ++i) issue();
    };
  };
  void *const from = a.data(), *const to = b.data(), *const none = nullptr;
  meter.add_rate("read memory", "GB/s", gigabytes, repeated([&, blocks] {
                   meter.launch("read", blocks, kMemoryThreads, 0, from, vectors, 1, none);
                 }));
  meter.add_rate("write memory", "GB/s", gigabytes, repeated([&, blocks] {
                   meter.launch("write", blocks, kMemoryThreads, 0, to, vectors);
                 }));
  meter.add_rate("copy memory (read + written)", "GB/s", 2 * gigabytes, repeated([&] {
                   meter.launch("copy", unsigned(vectors / kCopyThreads / kVectorsAtOnce),
                                kCopyThreads, 0, from, to);
                 }));
  // A third of L2, or what all threads take at once: each half of it keeps what it has read.
  constexpr int kRounds = 2000;
  const int64_t third = std::max<int64_t>(meter.gpu().l2_bytes / 3 / kVectorBytes / at_once, 1);
  const int64_t near = third * at_once;
  meter.add_rate("read L2", "GB/s", 1e-9 * kRounds * double(near * kVectorBytes), [&] {
    meter.launch("read", blocks, kMemoryThreads, 0, from, near, kRounds, none);
  });
}

void measure_arithmetic(Meter& meter) {
  constexpr int kRounds = 40000;
  const unsigned blocks = 2 * meter.multiprocessors();
  void* none = nullptr;
  meter.add_rate("f32 multiply-add", "TFLOP/s",
                 2e-12 * kFmas * kRounds * double(blocks) * kFmaThreads,
                 [&] { meter.launch("f32_fma", blocks, kFmaThreads, 0, kRounds, 0.5f, none); });
}

void measure_tensor_cores(Meter& meter) {
  struct Kind {
    const char* name;
    int element_bytes, columns;
    const char* unit;
  };
  constexpr Kind kKinds[] = {{"bf16", 2, 256, "TFLOP/s"},
                             {"f16", 2, 256, "TFLOP/s"},
                             {"tf32", 4, 256, "TFLOP/s"},
                             {"e4m3", 1, 256, "TFLOP/s"},
                             {"int8", 1, 192, "TOP/s"}};
  constexpr int kRounds = 16000;  // some 10 ms
  void* none = nullptr;
  for (const Kind& kind : kKinds) {
    const std::string kernel = std::string("tensor_") + kind.name;
    const int shared_bytes = kTensorStages * (kTensorRows + kind.columns) * kTensorDepth;
    cuda::allow_shared_bytes("tilewright-micro", meter.kernel(kernel), shared_bytes, meter.gpu());
    const double depth = double(kTensorDepth) / kind.element_bytes;
    const double flops =
        2.0 * kTensorRows * kind.columns * depth * kRounds * meter.multiprocessors();
    for (const bool random : {true, false})
      meter.add_rate(std::string("tensor cores, ") + kind.name + (random ? ", random" : ", zeros"),
                     kind.unit, 1e-12 * flops, [&] {
                       meter.launch(kernel, meter.multiprocessors(), kTensorThreads, shared_bytes,
                                    kRounds, int(random), none);
                     });
  }
}

/// Seconds between two points of a stream, while the host is ahead of it.
double queued_seconds(const Meter& meter, const std::function<void()>& issue) {
  constexpr int64_t kClocks = 20'000'000;  // some 10 ms, in which the host issues the rest
  const cuda::Driver& d = cuda::driver();
  cuda::Event begin = nullptr, end = nullptr;
  cuda::check(d.create_event(&begin, 0), "cuda: cuEventCreate");
  cuda::check(d.create_event(&end, 0), "cuda: cuEventCreate");
  meter.launch("spin", 1, 1, 0, kClocks);
  cuda::check(d.record_event(begin, meter.stream().get()), "cuda: cuEventRecord");
  issue();
  cuda::check(d.record_event(end, meter.stream().get()), "cuda: cuEventRecord");
  cuda::check(d.synchronize_event(end), "cuda: cuEventSynchronize");
  float milliseconds = 0;
  cuda::check(d.elapsed_ms(&milliseconds, begin, end), "cuda: cuEventElapsedTime");
  d.destroy_event(begin);
  d.destroy_event(end);
  return double(milliseconds) * 1e-3;
}

void measure_launches(Meter& meter) {
  constexpr int kRuns = 51, kLaunches = 400;  // fewer than the driver queues
  const auto issue = [&] {
    for (int i = 0; i < kLaunches; ++i) meter.launch("empty", 1, 32, 0);
  };
  std::vector<double> host, queued;
  issue();
  for (int run = 0; run < kRuns; ++run) {
    meter.stream().synchronize();
    host.push_back(seconds_of(issue) / kLaunches);
  }
  for (int run = 0; run < kRuns; ++run) queued.push_back(queued_seconds(meter, issue) / kLaunches);
  meter.add("launch of an empty kernel: host", "us", 1e6 * median(host));
  meter.add("empty kernel in a stream", "us", 1e6 * median(queued));
  meter.add_rate("empty kernel in a graph", "us", 1e-6 * kLaunches, issue, true);
}

/// Kernels that take half of the multiprocessors each, in one stream and in two: 1 is no overlap.
void measure_overlap(Meter& meter) {
  constexpr int64_t kClocks = 4'000'000;
  constexpr int kRuns = 21;
  const cuda::OwnStream other(meter.gpu());
  const auto spin = [&](const cuda::OwnStream& stream) {
    meter.launch_in(stream.get(), "spin", meter.multiprocessors() / 2, 1, 0, kClocks);
  };
  const auto both = [&](const cuda::OwnStream& second) {
    std::vector<double> times;
    for (int run = 0; run < kRuns; ++run)
      times.push_back(seconds_of([&] {
        spin(meter.stream());
        spin(second);
        meter.stream().synchronize();
        second.synchronize();
      }));
    return median(times);
  };
  const double in_turn = both(meter.stream());
  meter.add("overlap of two streams", "x", in_turn / both(other));
}

void measure_resident(Meter& meter) {
  constexpr int kRegisters = 4;  // CUfunction_attribute
  const auto add = [&](const std::string& name, int shared_bytes) {
    const cuda::Kernel kernel = meter.kernel(name);
    GpuResident row{kHoldThreads, 0, shared_bytes, 0};
    cuda::allow_shared_bytes("tilewright-micro", kernel, shared_bytes, meter.gpu());
    cuda::check(cuda::driver().kernel_attribute(&row.registers, kRegisters, kernel, meter.gpu().id),
                "cuda: cuKernelGetAttribute");
    cuda::check(cuda::driver().resident_blocks(&row.blocks, kernel, row.threads,
                                               static_cast<size_t>(shared_bytes)),
                "cuda: cuOccupancyMaxActiveBlocksPerMultiprocessor");
    meter.out().resident.push_back(row);
  };
  for (const char* name : {"hold_16", "hold_48", "hold_112", "hold_208"}) add(name, 0);
  const int most = int(meter.gpu().shared_bytes);
  for (const int shared_bytes : {16 << 10, 32 << 10, 64 << 10, 96 << 10, most})
    add("hold_16", std::min(shared_bytes, most));
}

/// What the host spends on a call, which runs meanwhile: rms_norm of a row of 64 elements.
void measure_calls(Meter& meter, ThreadPool& one) {
  const cuda::Buffer x(meter.gpu(), 256), weight(meter.gpu(), 256), out(meter.gpu(), 256);
  const Tensor row = Tensor::zeros({1, 64}, DType::kF32), flat = Tensor::zeros({64}, DType::kF32);
  const auto there = [](TensorRef tensor, const cuda::Buffer& buffer) {
    tensor.data = buffer.data();
    tensor.device = Device::cuda(0);
    return tensor;
  };
  Context context(one);
  context.set_cuda_stream(meter.stream().get());
  const OperatorInfo& op = find_operator("rms_norm");
  ops::Call made(*op.schema);
  made.set("x", there(row.ref(), x)).set("weight", there(flat.ref(), weight));
  made.set("out", there(row.ref(), out));
  constexpr int kCalls = 200, kRuns = 51;  // fewer than the driver queues
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    meter.stream().synchronize();
    times.push_back(seconds_of([&] {
                      for (int i = 0; i < kCalls; ++i) op.run(made, context);
                    }) /
                    kCalls);
  }
  meter.add("call on a GPU: host", "us", 1e6 * median(times));
}

}  // namespace

Support gpu_support() {
  if (!kHasCuda) return Support::no("this build has no kernels for GPUs (`make cuda` makes one)");
  return cuda::availability();
}

GpuLimits measure_gpu(ThreadPool& one) {
  if (const Support support = gpu_support(); !support)
    throw Error(ErrorKind::kUnsupported, "no GPU to measure: " + support.reason());
  const cuda::Gpu& gpu = cuda::gpu(0);
  const cuda::CurrentContext current(gpu);
  Meter meter(gpu);
  {
    const cuda::Buffer a(gpu, kArrayBytes), b(gpu, kArrayBytes);
    measure_driver_copy(meter, a, b);
    if (meter.is_hopper()) measure_memory(meter, a, b);
  }
  if (meter.is_hopper()) {
    measure_arithmetic(meter);
    measure_tensor_cores(meter);
    measure_launches(meter);
    measure_overlap(meter);
    measure_resident(meter);
  }
  measure_calls(meter, one);
  return meter.out();
}

void print_gpu(const GpuLimits& limits) {
  std::printf("\n%s, %d multiprocessors\n", limits.name.c_str(), limits.multiprocessors);
  std::printf("%-40s %10s %-8s %9s %7s\n", "limit", "", "", "clock", "power");
  for (const GpuRow& row : limits.rows) {
    std::printf("%-40s %10.5g %-8s", row.name.c_str(), row.value, row.unit.c_str());
    if (row.state) std::printf(" %5.0f MHz %5.0f W", row.state->sm_mhz, row.state->power_w);
    std::printf("\n");
  }
  if (limits.resident.empty()) return;
  std::printf("%-40s %10s %10s\n", "blocks of a multiprocessor, by", "registers", "shared");
  for (const GpuResident& row : limits.resident)
    std::printf("%4d of %d threads %24s %9d %6d KiB\n", row.blocks, row.threads, "", row.registers,
                row.shared_bytes >> 10);
}

nlohmann::json to_json(const GpuLimits& limits) {
  nlohmann::json out = {{"name", limits.name}, {"multiprocessors", limits.multiprocessors}};
  nlohmann::json& rows = out["limits"] = nlohmann::json::object();
  for (const GpuRow& row : limits.rows) {
    nlohmann::json& entry = rows[row.name] = {{"unit", row.unit}, {"value", row.value}};
    if (!row.state) continue;
    entry["clock_mhz"] = row.state->sm_mhz;
    entry["power_w"] = row.state->power_w;
  }
  nlohmann::json& resident = out["resident"] = nlohmann::json::array();
  for (const GpuResident& row : limits.resident)
    resident.push_back({{"threads", row.threads},
                        {"registers", row.registers},
                        {"shared_bytes", row.shared_bytes},
                        {"blocks", row.blocks}});
  return out;
}

}  // namespace tw::bench

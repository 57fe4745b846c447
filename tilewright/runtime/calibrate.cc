#include "tilewright/runtime/calibrate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tilewright/core/checked.h"
#include "tilewright/core/error.h"
#include "tilewright/runtime/thread_count.h"

namespace tw::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSmallPage = 4096, kHugePage = 2 << 20;
constexpr int64_t kStreamChunk = 2 << 20;  // bytes a thread claims at once: 50 to 100 us

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Processor time that all threads of this process have used.
double process_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

template <class F>
double seconds_of(F&& work) {
  const auto start = Clock::now();
  work();
  return seconds_since(start);
}

/// The shortest of at least `least` runs, repeated until `budget` seconds have passed.
template <class F>
double best_seconds(int least, double budget, F&& work) {
  const auto start = Clock::now();
  double best = seconds_of(work);
  for (int run = 1; run < least || seconds_since(start) < budget; ++run)
    best = std::min(best, seconds_of(work));
  return best;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::byte* map_memory(int64_t bytes, int advice) {
  void* const data =
      mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorKind::kOutOfMemory,
                "calibration: cannot map " + std::to_string(bytes) + " bytes");
  }
  madvise(data, size_t(bytes), advice);  // advice only: small pages measure the same streams
  return static_cast<std::byte*>(data);
}

template <class Condition>
void spin_until(Condition&& condition) {
  for (int spins = 0; !condition(); ++spins) {
    __asm__ volatile("pause" ::: "memory");
    if (spins > 10000) sched_yield();  // the other side's core is taken
  }
}

/// A body that holds its thread until `threads` bodies have started.
class Rendezvous {
 public:
  void wait_for(int64_t threads) {
    arrived_.fetch_add(1, std::memory_order_relaxed);
    spin_until([&] { return arrived_.load(std::memory_order_relaxed) >= threads; });
  }

 private:
  std::atomic<int64_t> arrived_{0};
};

void meet(ThreadPool& pool) {
  Rendezvous rendezvous;
  pool.parallel_for(pool.threads(), 1,
                    [&](int64_t, int64_t, int) { rendezvous.wait_for(pool.threads()); });
}

/// Nanoseconds for a counter to be raised by another thread and seen again, over `trips` trips.
double round_trip(ThreadPool& pool, int trips) {
  alignas(64) std::atomic<int> ball{0};
  double seconds = 0;
  pool.parallel_for(2, 1, [&](int64_t side, int64_t, int) {
    const auto start = Clock::now();
    for (int i = 0; i < trips; ++i) {
      spin_until([&] { return ball.load(std::memory_order_acquire) == 2 * i + int(side); });
      ball.store(2 * i + int(side) + 1, std::memory_order_release);
    }
    if (side == 1) seconds = seconds_since(start);
  });
  return 1e9 * seconds / trips;
}

template <class F>
double median_nanoseconds(int runs, double budget, F&& work) {
  std::vector<double> times;
  const auto start = Clock::now();
  while (int(times.size()) < runs && (times.size() < 5 || seconds_since(start) < budget))
    times.push_back(1e9 * seconds_of(work));
  return median(std::move(times));
}

}  // namespace

TouchedMemory::TouchedMemory(ThreadPool& pool, int64_t bytes)
    : data_(map_memory(bytes, MADV_HUGEPAGE)), bytes_(bytes) {
  pool.parallel_for(ceil_div(bytes, kHugePage), 1, [&](int64_t begin, int64_t end, int) {
    const int64_t last = std::min(end * kHugePage, bytes);
    for (int64_t i = begin * kHugePage; i < last; i += kSmallPage) data_[i] = std::byte{1};
  });
}

TouchedMemory::~TouchedMemory() {
  munmap(data_, size_t(bytes_));
}

double measure_arithmetic(ThreadPool& pool, const tile::ArithmeticProbe& probe) {
  if (probe.run == nullptr) return 0;
  // Chunks of about 0.1 ms, so that an interrupted thread's share goes to the others.
  constexpr int64_t kChunks = 32;
  constexpr int64_t kTrial = 10000;
  for (int warm = 0; warm < 20; ++warm) probe.run(kTrial);  // the clock rises under load
  const double trial = best_seconds(5, 0, [&] { probe.run(kTrial); });
  const auto iterations = std::max<int64_t>(1, int64_t(1e-4 / trial * double(kTrial)));
  const int64_t chunks = kChunks * pool.threads();
  const double seconds = best_seconds(8, 0.08, [&] {
    pool.parallel_for(chunks, 1, [&](int64_t, int64_t, int) { probe.run(iterations); });
  });
  return 1e-9 * probe.ops_per_iteration * double(iterations) * double(chunks) / seconds;
}

StreamRates measure_streams(ThreadPool& pool, const tile::MemoryProbe& probe,
                            const TouchedMemory& a, const TouchedMemory& b) {
  const int64_t chunks = a.bytes() / kStreamChunk;
  const double bytes = double(chunks * kStreamChunk);
  const auto rate = [&](double counted, auto&& body) {
    const double seconds = best_seconds(4, 0.2, [&] {
      pool.parallel_for(chunks, 1,
                        [&](int64_t begin, int64_t, int) { body(begin * kStreamChunk); });
    });
    return 1e-9 * counted / seconds;
  };
  StreamRates out;
  out.read = rate(bytes, [&](int64_t i) { probe.read(a.data() + i, kStreamChunk); });
  out.write = rate(bytes, [&](int64_t i) { probe.write(b.data() + i, kStreamChunk); });
  out.write_around =
      rate(bytes, [&](int64_t i) { probe.write_around(b.data() + i, kStreamChunk); });
  out.copy =
      rate(2 * bytes, [&](int64_t i) { probe.copy(b.data() + i, a.data() + i, kStreamChunk); });
  out.copy_around = rate(
      2 * bytes, [&](int64_t i) { probe.copy_around(b.data() + i, a.data() + i, kStreamChunk); });
  return out;
}

double measure_cache_read(ThreadPool& pool, const tile::MemoryProbe& probe, int64_t bytes) {
  bytes = std::max<int64_t>(bytes / 512 * 512, 512);  // the probe's step
  const TouchedMemory memory(pool, round_up(bytes, kSmallPage) * pool.threads());
  const int64_t stride = round_up(bytes, kSmallPage);
  const int64_t rounds = ceil_div(8 << 20, bytes);  // 8 MiB a chunk
  const int64_t chunks = int64_t{8} * pool.threads();
  const double seconds = best_seconds(8, 0.1, [&] {
    pool.parallel_for(chunks, 1, [&](int64_t, int64_t, int worker) {
      for (int64_t i = 0; i < rounds; ++i) probe.read(memory.data() + worker * stride, bytes);
    });
  });
  return 1e-9 * double(bytes) * double(rounds * chunks) / seconds;
}

ForkJoinTimes measure_fork_join(ThreadPool& pool) {
  ForkJoinTimes out;
  for (int warm = 0; warm < 100; ++warm) meet(pool);
  if (pool.threads() > 1) {
    std::vector<double> trips;
    for (int run = 0; run < 25; ++run) trips.push_back(round_trip(pool, 200));
    out.round_trip = median(std::move(trips));
  }
  out.hot = median_nanoseconds(5000, 0.5, [&] { meet(pool); });
  out.caller_only = median_nanoseconds(
      5000, 0.5, [&] { pool.parallel_for(pool.threads(), 1, [](int64_t, int64_t, int) {}); });
  constexpr int kPhases = 50;
  out.phase = median_nanoseconds(200, 0.5,
                                 [&] {
                                   std::vector<Rendezvous> rendezvous(kPhases);
                                   pool.parallel_phases(
                                       kPhases, [&](int) { return Work(pool.threads(), 1); },
                                       [&](int phase, int64_t, int64_t, int) {
                                         rendezvous[size_t(phase)].wait_for(pool.threads());
                                       });
                                 }) /
              kPhases;
  std::vector<double> idle;
  for (int round = 0; round < 15; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    idle.push_back(1e9 * seconds_of([&] { meet(pool); }));
  }
  out.idle = median(std::move(idle));
  return out;
}

PageFaultTimes measure_page_faults() {
  constexpr int64_t kBytes = 64 << 20;
  const auto nanoseconds_per = [](int64_t page, int advice) {
    double best = 1e9;
    for (int run = 0; run < 3; ++run) {
      std::byte* const data = map_memory(kBytes, advice);
      best = std::min(best, seconds_of([&] {
                        for (int64_t i = 0; i < kBytes; i += kSmallPage) data[i] = std::byte{1};
                      }));
      munmap(data, size_t(kBytes));
    }
    return 1e9 * best / double(kBytes / page);
  };
  return {nanoseconds_per(kSmallPage, MADV_NOHUGEPAGE), nanoseconds_per(kHugePage, MADV_HUGEPAGE)};
}

double measure_clock_ghz() {
  constexpr int64_t kCycles = 1'000'000;
  return 1e-9 * double(kCycles) / best_seconds(20, 0.02, [] { tile::spin_cycles(kCycles); });
}

int64_t stream_array_bytes() {
  constexpr int64_t kMost = 512 << 20, kLeast = 16 << 20;
  std::ifstream file("/proc/meminfo");
  int64_t available = 0;  // bytes
  for (std::string label, unit; file >> label;) {
    int64_t kib = 0;
    if (!(file >> kib)) break;
    std::getline(file, unit);
    if (label == "MemAvailable:") available = kib * 1024;
  }
  if (available == 0) return kMost;
  return std::clamp(available / 4 / kStreamChunk * kStreamChunk, kLeast, kMost);
}

CalibrationRun calibrate(ThreadPool& pool,
                         const std::function<void(const std::string&)>& progress) {
  CalibrationRun run;
  Calibration& out = run.calibration;
  ThreadPool single(1);
  const std::vector<Isa> isas = available_isas();
  if (isas.empty()) {
    throw Error(ErrorKind::kUnsupported, "calibration: no build of the kernels runs here");
  }
  const double processor_before = process_seconds();
  const auto start = Clock::now();
  for (const Isa isa : isas) {
    progress(std::string("arithmetic, ") + name(isa));
    // With all threads at work, as kernels run: clocks and shared units are part of the rate.
    const double share = 1.0 / pool.threads();
    out.rates[size_t(isa)] = CoreRates{
        .f32_fma_gflops = share * measure_arithmetic(pool, tile::f32_fma_probe(isa)),
        .bf16_dot_gflops = share * measure_arithmetic(pool, tile::bf16_dot_probe(isa)),
        .f16_fma_gflops = share * measure_arithmetic(pool, tile::f16_fma_probe(isa)),
        .int8_dot_gops = share * measure_arithmetic(pool, tile::int8_dot_probe(isa)),
        .bf16_tile_gflops = share * measure_arithmetic(pool, tile::bf16_tile_probe(isa)),
        .int8_tile_gops = share * measure_arithmetic(pool, tile::int8_tile_probe(isa)),
    };
  }
  run.processor_share = (process_seconds() - processor_before) /
                        (seconds_since(start) * std::min(pool.threads(), affinity_count()));
  const int64_t bytes = stream_array_bytes();
  progress("memory, 2 x " + std::to_string(bytes >> 20) + " MiB");
  const TouchedMemory a(pool, bytes), b(pool, bytes);
  const tile::MemoryProbe probe = tile::memory_probe(isas.back());
  out.threads = pool.threads();
  out.dram_read_gbs = measure_streams(single, probe, a, b).read;
  const StreamRates all = measure_streams(pool, probe, a, b);
  out.dram_read_all_gbs = all.read;
  out.dram_copy_gbs = std::max(all.copy, all.copy_around);
  return run;
}

}  // namespace tw::runtime

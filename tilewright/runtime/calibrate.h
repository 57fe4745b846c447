// Measures what this machine can do: the limits that kernels are chosen by and compared with.
//
// Rates are the best of several runs: a limit is what is reached when nothing else interferes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tilewright/core/macros.h"
#include "tilewright/runtime/machine.h"
#include "tilewright/runtime/thread_pool.h"
#include "tilewright/tile/cpu/probe.h"

namespace tw::runtime {

/// Memory of its own mapping, huge pages advised, every page written once. Throws
/// Error{kOutOfMemory}.
class TW_API TouchedMemory {
 public:
  TouchedMemory(ThreadPool& pool, int64_t bytes);
  ~TouchedMemory();
  TouchedMemory(const TouchedMemory&) = delete;
  TouchedMemory& operator=(const TouchedMemory&) = delete;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  int64_t bytes_;
};

/// 10^9 operations per second of all threads of the pool together; 0 for an empty probe.
TW_API double measure_arithmetic(ThreadPool& pool, const tile::ArithmeticProbe& probe);

/// 10^9 bytes per second; a copy counts the bytes read and the bytes written.
struct StreamRates {
  double read = 0, write = 0, write_around = 0, copy = 0, copy_around = 0;
};
/// All threads of the pool stream through the two arrays, which have one size.
TW_API StreamRates measure_streams(ThreadPool& pool, const tile::MemoryProbe& probe,
                                   const TouchedMemory& a, const TouchedMemory& b);

/// 10^9 bytes per second that all threads together read, each again and again its own `bytes`.
TW_API double measure_cache_read(ThreadPool& pool, const tile::MemoryProbe& probe, int64_t bytes);

/// Medians, in nanoseconds.
struct ForkJoinTimes {
  double round_trip = 0;   // a cache line to another core and back; 0 with one thread
  double caller_only = 0;  // parallel_for of empty bodies: nobody needs to help
  double hot = 0;          // one body per thread, each waiting until all have started
  double phase = 0;        // the same, per phase of a parallel_phases
  double idle = 0;         // as hot, after 20 ms without work: the workers sleep
};
TW_API ForkJoinTimes measure_fork_join(ThreadPool& pool);

/// Nanoseconds until a fresh page can be written to, by one thread.
struct PageFaultTimes {
  double small_page = 0;  // 4 KiB
  double huge_page = 0;   // 2 MiB where the system gives them, else 512 small ones
};
TW_API PageFaultTimes measure_page_faults();

/// Cycles per nanosecond of the calling core while it works.
TW_API double measure_clock_ghz();

/// Bytes for each of two arrays that are to stream through DRAM: 512 MiB, less on a machine with
/// little free memory.
TW_API int64_t stream_array_bytes();

struct CalibrationRun {
  Calibration calibration;
  /// How much of the threads' time the processors really gave them, about 1 on an idle machine.
  /// Far below, the rates are those of a busy machine, not its limits.
  double processor_share = 1;
};

/// Measures everything in Calibration for the builds in available_isas(), in at most 15 seconds.
/// Calls `progress` with what is about to be measured.
TW_API CalibrationRun calibrate(ThreadPool& pool,
                                const std::function<void(const std::string&)>& progress);

}  // namespace tw::runtime

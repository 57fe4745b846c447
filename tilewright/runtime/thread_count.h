// How many threads to use, and why that many.
#pragma once

#include <string>

#include "tilewright/core/macros.h"

namespace tw::runtime {

struct ThreadCount {
  int threads;
  std::string source;  // "argument", "TILEWRIGHT_NUM_THREADS", "cgroup cpu quota" or "affinity"
};

/// The number of threads: `requested` if > 0, else TILEWRIGHT_NUM_THREADS, else the processors this
/// process may run on, no more than its cgroup's quota rounded up. Throws Error{kInvalidArgument}
/// for a negative request, one above ThreadPool::kMaxThreads, or a malformed environment variable.
TW_API ThreadCount resolve_threads(int requested = 0);

/// Processors in this process's affinity mask, at least 1.
TW_API int affinity_count();

/// Processors this process can keep busy: affinity_count(), no more than its cgroup's quota rounded
/// up.
TW_API int usable_processors();

/// Processors' worth of time that the control groups of this process allow (the least over all
/// ancestors, cgroup v2 cpu.max or v1 cpu.cfs_quota_us); 0 when unlimited or unknown. `root` stands
/// before every path read ("" is the real system).
TW_API double cgroup_cpu_quota(const std::string& root = "");

}  // namespace tw::runtime

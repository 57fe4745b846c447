// What the machine gives at this moment: the limits that `tilewright bench` holds a call against.
//
// Clocks and shared memory buses drift by tens of per cent within seconds, on virtual machines
// most of all. So a limit is measured again between the runs of a call.
#pragma once

#include <optional>

#include "tilewright/ops/core/operator.h"
#include "tilewright/runtime/calibrate.h"
#include "tilewright/runtime/thread_pool.h"

namespace tw::cli {

/// What bounds a call. `of` is "arithmetic", "DRAM read" or "DRAM copy".
struct Limit {
  const char* of = "arithmetic";
  double amount = 0;                 // operations, or bytes read + written
  tile::ArithmeticProbe arithmetic;  // run is null where memory is the limit
  bool copies = false;
};

class LimitMeter {
 public:
  LimitMeter(runtime::ThreadPool& pool, const Machine& machine) : pool_(pool), machine_(machine) {}

  /// The longer of arithmetic and, where the operands come from memory, memory, by the machine's
  /// description. `written` bytes of the cost's are outputs: a call that mostly reads is held
  /// against the bandwidth of reading, others against that of copying.
  Limit limit_of(const ops::Cost& cost, double written, bool from_memory, DType dtype) const;

  /// Seconds that all threads would need now for the limit's amount. Takes a few milliseconds.
  double seconds_now(const Limit& limit);

 private:
  double operations_per_second(const tile::ArithmeticProbe& probe);
  double bytes_per_second(bool copies);

  runtime::ThreadPool& pool_;
  const Machine& machine_;
  std::optional<runtime::TouchedMemory> from_, to_;
};

}  // namespace tw::cli

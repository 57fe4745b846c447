// Fills in core/machine.h for this process: from a table, and from calibration where it was run.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tilewright/core/machine.h"
#include "tilewright/core/macros.h"
#include "tilewright/runtime/cpu_info.h"

namespace tw::runtime {

/// What one core computes per second in one build: 10^9 operations, a multiply-add counts two.
struct CoreRates {
  double f32_fma_gflops = 0;
  double bf16_dot_gflops = 0;  // 0: the build has no such instruction
  double f16_fma_gflops = 0;
  double int8_dot_gops = 0;
  double bf16_tile_gflops = 0;  // 0: the build has no such instruction
  double int8_tile_gops = 0;    // 0: the build has no such instruction
};

/// The result of `tilewright env --calibrate`.
struct Calibration {
  std::array<std::optional<CoreRates>, kIsaCount> rates;  // by Isa; those the machine can run
  int threads = 1;                                        // that the two all-thread rates are for
  double dram_read_gbs = 0;                               // one thread
  double dram_read_all_gbs = 0;
  double dram_copy_gbs = 0;
};

/// The table's entry for a processor, for a build and a number of threads.
TW_API Machine table_machine(const CpuInfo& cpu, Isa isa, int threads);

/// Replaces the table's rates by measured ones. With other than the measured number of threads the
/// all-thread rates are carried over: no more than one thread's times the number of threads.
TW_API void apply(const Calibration& calibration, Machine& machine);

/// machine.json in the folder of this user's caches (artifact_cache.h); empty when there is none.
TW_API std::string calibration_path();

/// What `path` holds for the processor `cpu_key` (CpuInfo::key()); nullopt when the file or the
/// entry does not exist. Throws Error{kBadFile} for a malformed file, {kIo} for an unreadable one.
TW_API std::optional<Calibration> read_calibration(const std::string& path,
                                                   const std::string& cpu_key);

/// Files `calibration` under `cpu_key`, keeping the entries of other processors, and replaces the
/// file in one step. Creates missing folders. Throws Error{kIo}.
TW_API void write_calibration(const std::string& path, const std::string& cpu_key,
                              const Calibration& calibration);

/// This process's calibration, read once; nullopt when there is none. A malformed file counts as
/// none, after a warning on stderr.
TW_API const std::optional<Calibration>& stored_calibration();

/// The description that kernels of build `isa` on `threads` threads get on this machine.
TW_API Machine make_machine(Isa isa, int threads);

/// make_machine() of detect_isa() and resolve_threads(), made once.
TW_API const Machine& machine();

}  // namespace tw::runtime

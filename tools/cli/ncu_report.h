// What matters of a report of Nsight Compute.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tw::cli {

/// Reads FILE.ncu-rep by `ncu`, or FILE.csv, which `ncu --import FILE --csv --page raw` printed.
/// An array with an object for each launch of a kernel whose name contains `kernel`:
///
///   kernel, grid, block, duration_us
///   throughput  per cent of the peak: memory, sm, issue, dram, l1, l2
///   pipes       per cent of the peak, while a multiprocessor works: tensor, fma, alu, ...
///   stalls      per cent of the time of warps: long_scoreboard, barrier, lg_throttle, ...
///
/// What was not measured is left out. Throws kBadFile for another kind of file, kInvalidArgument
/// when no kernel has that name.
nlohmann::json read_ncu_report(const std::string& path, std::string_view kernel);

/// As text.
void print_ncu_report(const nlohmann::json& kernels);

}  // namespace tw::cli

// machine.json: {"format": 1, "processors": {KEY: {"threads": 2, "dram_read_gbs": ..., "rates":
// {"avx2": {"f32_fma_gflops": ..., ...}, ...}}}}
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <nlohmann/json.hpp>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tilewright/core/temporary_file.h"
#include "tilewright/runtime/artifact_cache.h"
#include "tilewright/runtime/machine.h"
#include "tilewright/runtime/thread_pool.h"

namespace tw::runtime {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr int64_t kMostBytes = 1 << 20;  // a file beyond this is not ours
constexpr int kMostDepth = 16;           // nor is one beyond this, and copying it recurses

// The rates of a build, X(field, whether it may lack the instruction); the rates of the machine,
// X(field).
#define TW_FOR_EACH_CORE_RATE(X) \
  X(f32_fma_gflops, false)       \
  X(bf16_dot_gflops, true)       \
  X(f16_fma_gflops, true)        \
  X(int8_dot_gops, false)        \
  X(bf16_tile_gflops, true)      \
  X(int8_tile_gops, true)
#define TW_FOR_EACH_DRAM_RATE(X) X(dram_read_gbs) X(dram_read_all_gbs) X(dram_copy_gbs)

[[noreturn]] void bad(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kBadFile, printable(path) + ": " + what);
}

[[noreturn]] void io_failed(const std::string& path, const char* what) {
  throw Error(ErrorKind::kIo, printable(path) + ": " + what + ": " + std::strerror(errno));
}

/// A rate in (0, 10^6), or also 0 or none where `may_be_zero`. Anything else would mislead every
/// schedule.
double rate_of(const std::string& path, const json& object, const char* field, bool may_be_zero) {
  const auto it = object.find(field);
  if (it == object.end() && may_be_zero) return 0;
  if (it == object.end() || !it->is_number()) bad(path, std::string(field) + " is not a number");
  const double value = it->get<double>();
  if (!(value >= 0 && value < 1e6) || (value == 0 && !may_be_zero))
    bad(path, std::string(field) + " is " + it->dump() + ", which no machine reaches");
  return value;
}

CoreRates rates_from(const std::string& path, const json& object) {
  CoreRates out;
#define TW_READ(field, may_be_zero) out.field = rate_of(path, object, #field, may_be_zero);
  TW_FOR_EACH_CORE_RATE(TW_READ)
#undef TW_READ
  return out;
}

Calibration calibration_from(const std::string& path, const json& entry) {
  Calibration out;
  const auto threads = entry.find("threads"), rates = entry.find("rates");
  if (threads == entry.end() || !threads->is_number_integer()) bad(path, "threads is no integer");
  const int64_t count = threads->get<int64_t>();
  if (count < 1 || count > ThreadPool::kMaxThreads) bad(path, "threads is " + threads->dump());
  out.threads = int(count);
#define TW_READ(field) out.field = rate_of(path, entry, #field, false);
  TW_FOR_EACH_DRAM_RATE(TW_READ)
#undef TW_READ
  if (rates == entry.end() || !rates->is_object()) bad(path, "rates is no object");
  for (int i = 0; i < kIsaCount; ++i) {
    const auto rate = rates->find(name(static_cast<Isa>(i)));
    if (rate != rates->end()) out.rates[size_t(i)] = rates_from(path, *rate);
  }
  return out;
}

json to_json(const Calibration& calibration) {
  json rates = json::object();
  for (int i = 0; i < kIsaCount; ++i) {
    if (!calibration.rates[size_t(i)]) continue;
    json& entry = rates[name(static_cast<Isa>(i))];
#define TW_WRITE(field, may_be_zero) entry[#field] = calibration.rates[size_t(i)]->field;
    TW_FOR_EACH_CORE_RATE(TW_WRITE)
#undef TW_WRITE
  }
  json out = {{"threads", calibration.threads}, {"rates", std::move(rates)}};
#define TW_WRITE(field) out[#field] = calibration.field;
  TW_FOR_EACH_DRAM_RATE(TW_WRITE)
#undef TW_WRITE
  return out;
}

#undef TW_FOR_EACH_CORE_RATE
#undef TW_FOR_EACH_DRAM_RATE

/// The "processors" object of the file; an empty one when there is no file.
json read_processors(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return json::object();
  if (!std::filesystem::is_regular_file(path, error)) bad(path, "is no regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) io_failed(path, "cannot open");
  std::string text(size_t(kMostBytes) + 1, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  if (file.bad()) io_failed(path, "cannot read");
  text.resize(size_t(file.gcount()));
  if (int64_t(text.size()) > kMostBytes) bad(path, "larger than 1 MiB");
  bool deep = false;
  const auto check_depth = [&](int depth, json::parse_event_t, json&) {
    deep = deep || depth > kMostDepth;
    return !deep;
  };
  const json root = json::parse(text, check_depth, false);
  if (deep) bad(path, "nested deeper than " + std::to_string(kMostDepth) + " levels");
  if (!root.is_object()) bad(path, "is no JSON object");
  const auto format = root.find("format"), processors = root.find("processors");
  if (format == root.end() || *format != kFormat) bad(path, "format is not 1");
  if (processors == root.end() || !processors->is_object()) bad(path, "processors is no object");
  return *processors;
}

}  // namespace

std::string calibration_path() {
  const std::string folder = cache_folder();
  return folder.empty() ? folder : folder + "/machine.json";
}

std::optional<Calibration> read_calibration(const std::string& path, const std::string& cpu_key) {
  const json processors = read_processors(path);
  const auto entry = processors.find(cpu_key);
  if (entry == processors.end()) return std::nullopt;
  return calibration_from(path, *entry);
}

void write_calibration(const std::string& path, const std::string& cpu_key,
                       const Calibration& calibration) {
  json processors = json::object();
  try {
    processors = read_processors(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadFile) throw;  // a malformed file is replaced
  }
  processors[cpu_key] = to_json(calibration);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorKind::kIo, printable(folder.string()) + ": cannot create: " + error.message());
  TemporaryFile file(path);  // so that no reader sees half of it
  write_all(file.fd(), json{{"format", kFormat}, {"processors", processors}}.dump(2) + "\n", path);
  file.replace(true);
}

const std::optional<Calibration>& stored_calibration() {
  static const std::optional<Calibration> stored = []() -> std::optional<Calibration> {
    const std::string path = calibration_path();
    if (path.empty()) return std::nullopt;
    try {
      return read_calibration(path, cpu_info().key());
    } catch (const Error& error) {
      std::fprintf(stderr, "tilewright: calibration ignored: %s\n", error.what());
      return std::nullopt;
    }
  }();
  return stored;
}

}  // namespace tw::runtime

#include "tilewright/runtime/machine.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tilewright/core/error.h"
#include "tilewright/runtime/calibrate.h"
#include "tilewright/runtime/thread_count.h"

namespace tw::runtime {
namespace {

CpuInfo cpu_of(Microarchitecture microarchitecture) {
  CpuInfo cpu;
  cpu.microarchitecture = microarchitecture;
  cpu.l1d_bytes = 48 << 10;
  cpu.l2_bytes = 1 << 20;
  cpu.l3_bytes = 32 << 20;
  return cpu;
}

double ratio_bf16(Microarchitecture microarchitecture, Isa isa) {
  const Machine m = table_machine(cpu_of(microarchitecture), isa, 2);
  return m.bf16_dot_gflops / m.f32_fma_gflops;
}

TEST(MachineTable, Bf16AgainstF32IsWhatDecidesTheGemm) {
  EXPECT_DOUBLE_EQ(ratio_bf16(Microarchitecture::kSapphireRapids, Isa::avx512_fp16), 0.5);
  EXPECT_DOUBLE_EQ(ratio_bf16(Microarchitecture::kZen4, Isa::avx512_bf16), 2);
  EXPECT_DOUBLE_EQ(ratio_bf16(Microarchitecture::kZen5, Isa::avx512_bf16), 2);
}

TEST(MachineTable, RatesAreThoseOfTheBuild) {
  const CpuInfo cpu = cpu_of(Microarchitecture::kSapphireRapids);
  const Machine narrow = table_machine(cpu, Isa::avx2, 2);
  const Machine wide = table_machine(cpu, Isa::avx512, 2);
  const Machine vnni = table_machine(cpu, Isa::avx512_vnni, 2);
  const Machine all = table_machine(cpu, Isa::avx512_fp16, 2);
  EXPECT_DOUBLE_EQ(wide.f32_fma_gflops, 2 * narrow.f32_fma_gflops);
  EXPECT_EQ(vnni.bf16_dot_gflops, 0);
  EXPECT_EQ(vnni.f16_fma_gflops, 0);
  EXPECT_DOUBLE_EQ(all.f16_fma_gflops, 2 * all.f32_fma_gflops);
  EXPECT_DOUBLE_EQ(all.int8_dot_gops, 4 * all.f32_fma_gflops);
  EXPECT_LT(wide.int8_dot_gops, vnni.int8_dot_gops);
  EXPECT_EQ(all.isa, Isa::avx512_fp16);
}

TEST(MachineTable, TilesMultiplyFasterThanVectors) {
  const CpuInfo cpu = cpu_of(Microarchitecture::kSapphireRapids);
  const Machine tiles = table_machine(cpu, Isa::amx, 2);
  EXPECT_DOUBLE_EQ(tiles.bf16_tile_gflops, 16 * tiles.f32_fma_gflops);
  EXPECT_DOUBLE_EQ(tiles.int8_tile_gops, 2 * tiles.bf16_tile_gflops);
  const Machine none = table_machine(cpu, Isa::avx512_fp16, 2);
  EXPECT_EQ(none.bf16_tile_gflops, 0);
  EXPECT_EQ(none.int8_tile_gops, 0);
}

TEST(MachineTable, EveryMachineHasRatesAndCaches) {
  for (int m = 0; m <= int(Microarchitecture::kZen5Mobile); ++m) {
    const CpuInfo cpu = cpu_of(static_cast<Microarchitecture>(m));
    EXPECT_NE(name(cpu.microarchitecture), "?");
    for (int threads : {1, 2, 64}) {
      const Machine machine = table_machine(cpu, Isa::avx2, threads);
      EXPECT_GT(machine.f32_fma_gflops, 0);
      EXPECT_GT(machine.int8_dot_gops, 0);
      EXPECT_GE(machine.dram_read_all_gbs, machine.dram_read_gbs);
      EXPECT_LE(machine.dram_read_all_gbs, threads * machine.dram_read_gbs);
      EXPECT_GT(machine.dram_copy_gbs, 0);
      EXPECT_EQ(machine.l2_bytes, 1 << 20);
      EXPECT_EQ(machine.threads, threads);
    }
  }
}

TEST(MachineTable, UnknownCachesKeepSafeDefaults) {
  const Machine machine = table_machine(CpuInfo{}, Isa::avx2, 1);
  EXPECT_GE(machine.l1d_bytes, 16 << 10);
  EXPECT_GE(machine.l2_bytes, 128 << 10);
  EXPECT_GT(machine.l3_bytes, 0);
}

Calibration sample() {
  Calibration c;
  c.threads = 2;
  c.rates[size_t(Isa::avx2)] = CoreRates{.f32_fma_gflops = 113.5, .int8_dot_gops = 227.25};
  c.rates[size_t(Isa::avx512_fp16)] = CoreRates{226, 114, 455, 910, 0, 0};
  c.rates[size_t(Isa::amx)] = CoreRates{225, 113, 454, 909, 2400, 4800};
  c.dram_read_gbs = 18;
  c.dram_read_all_gbs = 35.5;
  c.dram_copy_gbs = 45;
  return c;
}

TEST(Calibration, ReplacesTheRatesOfItsBuild) {
  Machine machine = table_machine(cpu_of(Microarchitecture::kZen5), Isa::avx512_fp16, 2);
  apply(sample(), machine);
  EXPECT_EQ(machine.f32_fma_gflops, 226);
  EXPECT_EQ(machine.bf16_dot_gflops, 114);
  EXPECT_EQ(machine.f16_fma_gflops, 455);
  EXPECT_EQ(machine.int8_dot_gops, 910);
  EXPECT_EQ(machine.dram_read_gbs, 18);
  EXPECT_EQ(machine.dram_read_all_gbs, 35.5);
  EXPECT_EQ(machine.dram_copy_gbs, 45);
  EXPECT_EQ(machine.l2_bytes, 1 << 20);
  Machine tiles = table_machine(cpu_of(Microarchitecture::kSapphireRapids), Isa::amx, 2);
  apply(sample(), tiles);
  EXPECT_EQ(tiles.bf16_tile_gflops, 2400);
  EXPECT_EQ(tiles.int8_tile_gops, 4800);
  // A build that was not measured keeps the table's compute rates.
  Machine other = table_machine(cpu_of(Microarchitecture::kZen5), Isa::avx512, 2);
  const double before = other.f32_fma_gflops;
  apply(sample(), other);
  EXPECT_EQ(other.f32_fma_gflops, before);
  EXPECT_EQ(other.dram_read_gbs, 18);
}

TEST(Calibration, OtherThreadCountsScaleWithinWhatWasMeasured) {
  Machine one = table_machine(cpu_of(Microarchitecture::kZen5), Isa::avx2, 1);
  apply(sample(), one);
  EXPECT_EQ(one.dram_read_all_gbs, 18);
  EXPECT_DOUBLE_EQ(one.dram_copy_gbs, 45 * 18 / 35.5);
  Machine eight = table_machine(cpu_of(Microarchitecture::kZen5), Isa::avx2, 8);
  apply(sample(), eight);
  EXPECT_EQ(eight.dram_read_all_gbs, 35.5);
}

class CalibrationFile : public ::testing::Test {
 protected:
  CalibrationFile() {
    std::string folder = (std::filesystem::temp_directory_path() / "tilewright-XXXXXX").string();
    folder_ = mkdtemp(folder.data());
    path_ = folder_ + "/deep/er/machine.json";
  }
  ~CalibrationFile() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    std::ofstream(path_) << text;
  }
  std::string read() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_bad(const std::string& text) const {
    write(text);
    try {
      read_calibration(path_, "cpu");
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadFile) << text;
      EXPECT_TRUE(std::string(error.what()).starts_with(path_)) << error.what();
    }
  }
  std::string folder_, path_;
};

TEST_F(CalibrationFile, RoundTrip) {
  EXPECT_FALSE(read_calibration(path_, "cpu"));
  write_calibration(path_, "cpu", sample());
  EXPECT_FALSE(read_calibration(path_, "another cpu"));
  const auto back = read_calibration(path_, "cpu");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->threads, 2);
  EXPECT_EQ(back->dram_read_gbs, 18);
  EXPECT_EQ(back->dram_read_all_gbs, 35.5);
  EXPECT_EQ(back->dram_copy_gbs, 45);
  EXPECT_FALSE(back->rates[size_t(Isa::avx512)]);
  ASSERT_TRUE(back->rates[size_t(Isa::avx512_fp16)]);
  EXPECT_EQ(back->rates[size_t(Isa::avx512_fp16)]->f16_fma_gflops, 455);
  EXPECT_EQ(back->rates[size_t(Isa::avx2)]->int8_dot_gops, 227.25);
  EXPECT_EQ(back->rates[size_t(Isa::amx)]->bf16_tile_gflops, 2400);
  EXPECT_EQ(back->rates[size_t(Isa::amx)]->int8_tile_gops, 4800);
}

TEST_F(CalibrationFile, RatesOfWhatABuildMayLackCanBeMissing) {
  write(R"({"format":1,"processors":{"cpu":{"threads":2,
      "rates":{"avx2":{"f32_fma_gflops":113.5,"int8_dot_gops":227.25}},
      "dram_read_gbs":1,"dram_read_all_gbs":1,"dram_copy_gbs":1}}})");
  const auto back = read_calibration(path_, "cpu");
  ASSERT_TRUE(back && back->rates[size_t(Isa::avx2)]);
  EXPECT_EQ(back->rates[size_t(Isa::avx2)]->int8_dot_gops, 227.25);
  EXPECT_EQ(back->rates[size_t(Isa::avx2)]->bf16_tile_gflops, 0);
}

TEST_F(CalibrationFile, KeepsOtherProcessorsAndLeavesNothingBehind) {
  write_calibration(path_, "a", sample());
  Calibration other = sample();
  other.dram_read_gbs = 7;
  write_calibration(path_, "b", other);
  EXPECT_EQ(read_calibration(path_, "a")->dram_read_gbs, 18);
  EXPECT_EQ(read_calibration(path_, "b")->dram_read_gbs, 7);
  const auto folder = std::filesystem::path(path_).parent_path();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(CalibrationFile, MalformedFilesAreRefusedAndReplaced) {
  const std::string rates = R"("dram_read_gbs":1,"dram_read_all_gbs":1,"dram_copy_gbs":1)";
  const auto with = [](const std::string& entry) {
    return R"({"format":1,"processors":{"cpu":)" + entry + "}}";
  };
  for (
      const std::string& text :
      {std::string(""),
       std::string("{"),
       std::string("[]"),
       std::string("null"),
       std::string(R"({"format":2,"processors":{}})"),
       std::string(R"({"processors":{}})"),
       std::string(R"({"format":1})"),
       std::string(R"({"format":1,"processors":[]})"),
       std::string(1 << 21, ' '),
       std::string(1 << 19, '['),
       with("7"),
       with("{}"),
       with(std::string(1 << 18, '[') + std::string(1 << 18, ']')),
       with(R"({"threads":"2","rates":{},)" + rates + "}"),
       with(R"({"threads":0,"rates":{},)" + rates + "}"),
       with(R"({"threads":1e99,"rates":{},)" + rates + "}"),
       with(R"({"threads":99999999999999999999,"rates":{},)" + rates + "}"),
       with(R"({"threads":2,)" + rates + "}"),
       with(R"({"threads":2,"rates":[],)" + rates + "}"),
       with(R"({"threads":2,"rates":{}})"),
       with(
           R"({"threads":2,"rates":{},"dram_read_gbs":-1,"dram_read_all_gbs":1,"dram_copy_gbs":1})"),
       with(
           R"({"threads":2,"rates":{},"dram_read_gbs":0,"dram_read_all_gbs":1,"dram_copy_gbs":1})"),
       with(
           R"({"threads":2,"rates":{},"dram_read_gbs":1e300,"dram_read_all_gbs":1,"dram_copy_gbs":1})"),
       with(R"({"threads":2,"rates":{"avx2":5},)" + rates + "}"),
       with(R"({"threads":2,"rates":{"avx2":{"f32_fma_gflops":"fast"}},)" + rates + "}")}) {
    expect_bad(text);
  }
  write_calibration(path_, "cpu", sample());  // over the last malformed one
  EXPECT_EQ(read_calibration(path_, "cpu")->threads, 2);
}

TEST_F(CalibrationFile, TruncationAnywhereIsNoticed) {
  write_calibration(path_, "cpu", sample());
  const std::string whole = read();
  for (size_t length = 0; length + 2 < whole.size(); length += 7)
    expect_bad(whole.substr(0, length));
}

TEST_F(CalibrationFile, UnwritableFoldersAreReported) {
  write("x");
  try {
    write_calibration(path_ + "/machine.json", "cpu", sample());  // a file where a folder must be
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
  }
}

TEST(CalibrationPath, FollowsTheXdgVariables) {
  const auto saved = [](const char* variable) {
    const char* value = getenv(variable);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string cache = saved("XDG_CACHE_HOME"), home = saved("HOME");
  const std::string own = saved("TILEWRIGHT_CACHE_DIR");
  unsetenv("TILEWRIGHT_CACHE_DIR");
  setenv("HOME", "/home/somebody", 1);
  setenv("XDG_CACHE_HOME", "/var/cache/x", 1);
  EXPECT_EQ(calibration_path(), "/var/cache/x/tilewright/machine.json");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(calibration_path(), "/home/somebody/.cache/tilewright/machine.json");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(calibration_path(), "/home/somebody/.cache/tilewright/machine.json");
  unsetenv("HOME");
  EXPECT_EQ(calibration_path(), "");
  if (!cache.empty()) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
  if (!own.empty()) setenv("TILEWRIGHT_CACHE_DIR", own.c_str(), 1);
}

TEST(Probes, RunWhereTheBuildRuns) {
  for (const Isa isa : available_isas()) {
    for (const auto& probe :
         {tile::f32_fma_probe(isa), tile::bf16_dot_probe(isa), tile::f16_fma_probe(isa),
          tile::int8_dot_probe(isa), tile::bf16_tile_probe(isa), tile::int8_tile_probe(isa)}) {
      if (probe.run == nullptr) continue;
      EXPECT_GT(probe.ops_per_iteration, 0);
      probe.run(100);
    }
    EXPECT_EQ(tile::bf16_dot_probe(isa).run != nullptr, isa >= Isa::avx512_bf16);
    EXPECT_EQ(tile::f16_fma_probe(isa).run != nullptr, isa >= Isa::avx512_fp16);
    EXPECT_EQ(tile::bf16_tile_probe(isa).run != nullptr, isa >= Isa::amx);
    EXPECT_EQ(tile::int8_tile_probe(isa).run != nullptr, isa >= Isa::amx);
    ThreadPool pool(1);
    const TouchedMemory a(pool, 8192), b(pool, 8192);
    const tile::MemoryProbe memory = tile::memory_probe(isa);
    for (int64_t i = 0; i < 8192; ++i) a.data()[i] = std::byte(i * 7);
    memory.read(a.data(), 4096);
    for (const auto copy : {memory.copy, memory.copy_around}) {
      std::fill_n(b.data(), 8192, std::byte{0});
      copy(b.data(), a.data(), 4096);
      EXPECT_TRUE(std::equal(a.data(), a.data() + 4096, b.data()));
      EXPECT_EQ(b.data()[4096], std::byte{0});
    }
    for (const auto write : {memory.write, memory.write_around}) {
      std::fill_n(b.data(), 8192, std::byte{9});
      write(b.data(), 4096);
      EXPECT_EQ(b.data()[0], std::byte{1});
      EXPECT_EQ(b.data()[4092], std::byte{1});
      EXPECT_EQ(b.data()[4095], std::byte{0});
      EXPECT_EQ(b.data()[4096], std::byte{9});
    }
  }
}

TEST(Measurements, AreRatesOfThisMachine) {
  if (available_isas().empty()) GTEST_SKIP() << "no build of the kernels runs here";
  const Isa isa = available_isas().back();
  ThreadPool pool(2);
  EXPECT_GT(measure_arithmetic(pool, tile::f32_fma_probe(isa)), 0.1);
  EXPECT_EQ(measure_arithmetic(pool, tile::ArithmeticProbe{}), 0);
  const TouchedMemory a(pool, 4 << 20), b(pool, 4 << 20);
  const StreamRates rates = measure_streams(pool, tile::memory_probe(isa), a, b);
  for (const double rate : {rates.read, rates.write, rates.write_around, rates.copy,
                            rates.copy_around, measure_clock_ghz()}) {
    EXPECT_GT(rate, 0.01);
    EXPECT_LT(rate, 1e5);
  }
  EXPECT_EQ(stream_array_bytes() % (2 << 20), 0);
}

TEST(Machine, DescribesThisProcess) {
  const Machine& m = machine();
  EXPECT_EQ(&m, &machine());
  EXPECT_EQ(m.isa, detect_isa());
  EXPECT_EQ(m.threads, resolve_threads().threads);
  EXPECT_GT(m.f32_fma_gflops, 0);
}

}  // namespace
}  // namespace tw::runtime

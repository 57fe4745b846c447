#include "tilewright/runtime/machine.h"

#include <algorithm>

#include "tilewright/runtime/thread_count.h"

namespace tw::runtime {
namespace {

/// What a core does per cycle, and about how it is clocked and fed. Rates of a width that a core
/// lacks are 0.
struct CoreTable {
  double ghz;  // usual under all-core vector load
  // Operations per cycle.
  int f32_ymm, f32_zmm;  // vfmadd
  int bf16_zmm;          // vdpbf16ps
  int f16_zmm;           // vfmaddph
  int i8_ymm, i8_zmm;    // vpmaddubsw + vpmaddwd + vpaddd
  int vnni_zmm;          // vpdpbusd
  // DRAM, GB/s: one thread, and a group of cores that shares a link.
  double read_one, read_group;
  int group;
};

// From Agner Fog's instruction tables, uops.info and the vendors' optimization manuals; the rows of
// Sapphire Rapids (on an Emerald Rapids), Zen 3 and Zen 5 agree with benchmarks/micro.
// vdpbf16ps takes two cycles of both ports on Sapphire Rapids: half of the f32 rate.
//                           GHz   f32     bf16  f16  i8      vnni  DRAM
constexpr CoreTable kHaswell{3.0, 32, 0, 0, 0, 32, 0, 0, 10, 40, 64};
constexpr CoreTable kSkylake{4.0, 32, 0, 0, 0, 64, 0, 0, 18, 30, 64};
constexpr CoreTable kSkylakeX{2.8, 32, 64, 0, 0, 64, 85, 0, 11, 80, 64};
constexpr CoreTable kIceLake{3.8, 32, 32, 0, 0, 64, 64, 128, 20, 40, 64};
constexpr CoreTable kIceLakeServer{3.0, 32, 64, 0, 0, 64, 85, 256, 13, 120, 64};
constexpr CoreTable kAlderLake{4.5, 32, 0, 0, 0, 64, 0, 0, 30, 60, 64};
constexpr CoreTable kSapphireRapids{3.4, 32, 64, 32, 128, 64, 85, 256, 17, 180, 64};
constexpr CoreTable kZen1{3.2, 16, 0, 0, 0, 16, 0, 0, 20, 30, 8};
constexpr CoreTable kZen2{3.3, 32, 0, 0, 0, 32, 0, 0, 20, 30, 8};
constexpr CoreTable kZen3{3.4, 32, 0, 0, 0, 48, 0, 0, 25, 35, 8};
constexpr CoreTable kZen4{3.6, 32, 32, 64, 0, 64, 64, 128, 30, 40, 8};
constexpr CoreTable kZen5{3.7, 32, 64, 128, 0, 64, 128, 256, 40, 42, 8};
constexpr CoreTable kZen5Mobile{3.7, 32, 32, 64, 0, 64, 64, 128, 40, 60, 8};

// Operations per cycle of tdpbf16ps and tdpbssd: 16 cycles for a product of whole tiles on every
// core that has them so far.
constexpr int kBf16Tile = 1024, kInt8Tile = 2048;

const CoreTable& table_of(const CpuInfo& cpu) {
  switch (cpu.microarchitecture) {
    case Microarchitecture::kHaswell:
      return kHaswell;
    case Microarchitecture::kSkylake:
      return kSkylake;
    case Microarchitecture::kSkylakeX:
      return kSkylakeX;
    case Microarchitecture::kIceLake:
      return kIceLake;
    case Microarchitecture::kIceLakeServer:
      return kIceLakeServer;
    case Microarchitecture::kAlderLake:
      return kAlderLake;
    case Microarchitecture::kSapphireRapids:
      return kSapphireRapids;
    case Microarchitecture::kGraniteRapids:
      return kSapphireRapids;  // the same vector units
    case Microarchitecture::kZen1:
      return kZen1;
    case Microarchitecture::kZen2:
      return kZen2;
    case Microarchitecture::kZen3:
      return kZen3;
    case Microarchitecture::kZen4:
      return kZen4;
    case Microarchitecture::kZen5:
      return kZen5;
    case Microarchitecture::kZen5Mobile:
      return kZen5Mobile;
    case Microarchitecture::kUnknown:
      break;
  }
  // A core unknown to us is most likely newer than the newest of its maker.
  const bool wide = cpu.features.avx512f;
  if (cpu.vendor == "AuthenticAMD") return wide ? kZen5 : kZen3;
  return wide ? kSapphireRapids : kHaswell;
}

}  // namespace

Machine table_machine(const CpuInfo& cpu, Isa isa, int threads) {
  const CoreTable& core = table_of(cpu);
  Machine out;
  out.isa = isa;
  out.threads = threads;
  if (cpu.l1d_bytes > 0) out.l1d_bytes = cpu.l1d_bytes;
  if (cpu.l2_bytes > 0) out.l2_bytes = cpu.l2_bytes;
  if (cpu.l1d_bytes > 0) out.l3_bytes = cpu.l3_bytes;  // none, where the others are known
  const bool zmm = isa >= Isa::avx512;
  out.f32_fma_gflops = core.ghz * (zmm ? core.f32_zmm : core.f32_ymm);
  out.bf16_dot_gflops = isa >= Isa::avx512_bf16 ? core.ghz * core.bf16_zmm : 0;
  out.f16_fma_gflops = isa >= Isa::avx512_fp16 ? core.ghz * core.f16_zmm : 0;
  const int i8 = isa >= Isa::avx512_vnni ? core.vnni_zmm : zmm ? core.i8_zmm : core.i8_ymm;
  out.int8_dot_gops = core.ghz * i8;
  out.bf16_tile_gflops = isa >= Isa::amx ? core.ghz * kBf16Tile : 0;
  out.int8_tile_gops = isa >= Isa::amx ? core.ghz * kInt8Tile : 0;
  const int groups = (threads + core.group - 1) / core.group;
  out.dram_read_gbs = core.read_one;
  out.dram_read_all_gbs = std::min(core.read_one * threads, core.read_group * groups);
  out.dram_copy_gbs =
      1.25 * out.dram_read_all_gbs;  // measured 1.26 (Sapphire Rapids), 1.30 (Zen 5)
  return out;
}

void apply(const Calibration& calibration, Machine& machine) {
  if (const auto& rates = calibration.rates[size_t(machine.isa)]) {
    machine.f32_fma_gflops = rates->f32_fma_gflops;
    machine.bf16_dot_gflops = rates->bf16_dot_gflops;
    machine.f16_fma_gflops = rates->f16_fma_gflops;
    machine.int8_dot_gops = rates->int8_dot_gops;
    machine.bf16_tile_gflops = rates->bf16_tile_gflops;
    machine.int8_tile_gops = rates->int8_tile_gops;
  }
  machine.dram_read_gbs = calibration.dram_read_gbs;
  const double one = calibration.dram_read_gbs, all = calibration.dram_read_all_gbs;
  // Beyond the measured count nothing is known, so nothing is promised.
  machine.dram_read_all_gbs =
      machine.threads == calibration.threads ? all : std::min(one * machine.threads, all);
  machine.dram_copy_gbs = calibration.dram_copy_gbs * machine.dram_read_all_gbs / all;
}

Machine make_machine(Isa isa, int threads) {
  Machine out = table_machine(cpu_info(), isa, threads);
  if (stored_calibration()) apply(*stored_calibration(), out);
  return out;
}

const Machine& machine() {
  static const Machine instance = make_machine(detect_isa(), resolve_threads().threads);
  return instance;
}

}  // namespace tw::runtime

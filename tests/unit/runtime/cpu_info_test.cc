#include "tilewright/runtime/cpu_info.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tilewright/core/error.h"

namespace tw::runtime {
namespace {

constexpr uint64_t kSavesYmm = 0x7, kSavesZmm = 0xe7, kSavesTiles = 0x600e7;

/// A processor made of the leaves a test sets; unset ones within range are zero.
class FakeCpu {
 public:
  FakeCpu(const char (&vendor)[13], uint32_t signature, uint32_t last_leaf = 0x20) {
    CpuidLeaf& first = leaves_[{0, 0}];
    first.eax = last_leaf;
    std::memcpy(&first.ebx, vendor, 4);
    std::memcpy(&first.edx, vendor + 4, 4);
    std::memcpy(&first.ecx, vendor + 8, 4);
    leaves_[{1, 0}].eax = signature;
    leaves_[{7, 0}].eax = 1;  // last subleaf
    leaves_[{0x80000000u, 0}].eax = 0x8000001eu;
  }
  CpuidLeaf& leaf(uint32_t leaf, uint32_t subleaf = 0) { return leaves_[{leaf, subleaf}]; }

  FakeCpu& with_avx2() {
    leaf(1).ecx |= 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29;
    leaf(7).ebx |= 1u << 3 | 1u << 5 | 1u << 8;
    return *this;
  }
  FakeCpu& with_avx512() {
    leaf(7).ebx |= 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    return with_avx2();
  }
  FakeCpu& with_vnni() {
    leaf(7).ebx |= 1u << 21;
    leaf(7).ecx |= 1u << 1 | 1u << 6 | 1u << 8 | 1u << 11 | 1u << 12 | 1u << 14;
    return with_avx512();
  }
  FakeCpu& with_bf16() {
    leaf(7, 1).eax |= 1u << 5;
    return with_vnni();
  }
  FakeCpu& with_fp16() {
    leaf(7).edx |= 1u << 23;
    return with_bf16();
  }
  FakeCpu& with_amx() {
    leaf(7).edx |= 1u << 22 | 1u << 24 | 1u << 25;
    return with_fp16();
  }
  CpuInfo read(uint64_t xcr0) const {
    return read_cpu_info(
        [this](uint32_t leaf, uint32_t subleaf) {
          const auto it = leaves_.find({leaf, subleaf});
          return it == leaves_.end() ? CpuidLeaf{} : it->second;
        },
        xcr0);
  }

 private:
  std::map<std::pair<uint32_t, uint32_t>, CpuidLeaf> leaves_;
};

/// The strongest build that runs, or -1.
int strongest(const CpuInfo& cpu) {
  int best = -1;
  for (int i = 0; i < kIsaCount; ++i)
    if (runs(static_cast<Isa>(i), cpu.features)) best = i;
  return best;
}

TEST(CpuInfo, EachLevelNeedsItsFeatures) {
  EXPECT_EQ(strongest(FakeCpu("GenuineIntel", 0x306a9).read(kSavesYmm)), -1);
  EXPECT_EQ(strongest(FakeCpu("GenuineIntel", 0x306c3).with_avx2().read(kSavesYmm)), 0);
  EXPECT_EQ(strongest(FakeCpu("GenuineIntel", 0x50654).with_avx512().read(kSavesZmm)), 1);
  EXPECT_EQ(strongest(FakeCpu("GenuineIntel", 0x606a6).with_vnni().read(kSavesZmm)), 2);
  EXPECT_EQ(strongest(FakeCpu("AuthenticAMD", 0xa10f11).with_bf16().read(kSavesZmm)), 3);
  EXPECT_EQ(strongest(FakeCpu("GenuineIntel", 0x806f8).with_fp16().read(kSavesZmm)), 4);
  EXPECT_EQ(strongest(FakeCpu("GenuineIntel", 0x806f8).with_amx().read(kSavesTiles)), 5);
}

TEST(CpuInfo, TilesTellWhatAnOlderModelNumberHides) {
  const auto core = [](uint32_t version, uint64_t saved) {
    return FakeCpu("GenuineIntel", version).with_amx().read(saved).microarchitecture;
  };
  EXPECT_EQ(core(0xa0670, kSavesTiles), Microarchitecture::kSapphireRapids);
  EXPECT_EQ(core(0xa0670, kSavesZmm), Microarchitecture::kIceLake);
  EXPECT_EQ(core(0xa06d1, kSavesTiles), Microarchitecture::kGraniteRapids);
}

TEST(CpuInfo, EveryRequiredBitIsRequired) {
  const std::pair<uint32_t, uint32_t> bits_of_leaf7[] = {
      // {register: 1 ebx 2 ecx, bit}: those of avx512_vnni
      {1, 3},  {1, 5}, {1, 8}, {1, 16}, {1, 17}, {1, 21}, {1, 28}, {1, 30},
      {1, 31}, {2, 1}, {2, 6}, {2, 8},  {2, 11}, {2, 12}, {2, 14}};
  for (const auto& [reg, bit] : bits_of_leaf7) {
    FakeCpu cpu("GenuineIntel", 0x606a6);
    cpu.with_vnni();
    (reg == 1 ? cpu.leaf(7).ebx : cpu.leaf(7).ecx) &= ~(1u << bit);
    EXPECT_FALSE(runs(Isa::avx512_vnni, cpu.read(kSavesZmm).features)) << reg << ":" << bit;
  }
  for (const uint32_t bit : {22u, 24u, 25u}) {
    FakeCpu cpu("GenuineIntel", 0x806f8);
    cpu.with_amx().leaf(7).edx &= ~(1u << bit);
    EXPECT_FALSE(runs(Isa::amx, cpu.read(kSavesTiles).features)) << bit;
  }
  for (const uint32_t bit : {12u, 28u, 29u}) {
    FakeCpu cpu("GenuineIntel", 0x606a6);
    cpu.with_avx2().leaf(1).ecx &= ~(1u << bit);
    EXPECT_FALSE(runs(Isa::avx2, cpu.read(kSavesYmm).features)) << bit;
  }
}

TEST(CpuInfo, RegistersThatTheSystemDoesNotSaveAreNotUsed) {
  FakeCpu cpu("GenuineIntel", 0x806f8);
  cpu.with_amx();
  EXPECT_EQ(strongest(cpu.read(kSavesZmm)), 4);
  EXPECT_EQ(strongest(cpu.read(kSavesYmm)), 0);
  EXPECT_EQ(strongest(cpu.read(0x3)), -1);
  cpu.leaf(1).ecx &= ~(1u << 27);  // no OSXSAVE: xcr0 means nothing
  EXPECT_EQ(strongest(cpu.read(kSavesTiles)), -1);
}

TEST(CpuInfo, LeavesBeyondTheLastAreNotRead) {
  FakeCpu old("GenuineIntel", 0x306c3, /*last_leaf=*/4);
  old.with_fp16();
  EXPECT_FALSE(old.read(kSavesZmm).features.avx2);
  FakeCpu no_subleaf("GenuineIntel", 0x606a6);
  no_subleaf.with_fp16().leaf(7).eax = 0;
  EXPECT_EQ(strongest(no_subleaf.read(kSavesZmm)), 2);
}

TEST(CpuInfo, Microarchitectures) {
  const auto intel = [](uint32_t signature) {
    return FakeCpu("GenuineIntel", signature).read(0).microarchitecture;
  };
  const auto amd = [](uint32_t signature) {
    return FakeCpu("AuthenticAMD", signature).read(0).microarchitecture;
  };
  EXPECT_EQ(intel(0x306c3), Microarchitecture::kHaswell);
  EXPECT_EQ(intel(0x50657), Microarchitecture::kSkylakeX);
  EXPECT_EQ(intel(0x606a6), Microarchitecture::kIceLakeServer);
  EXPECT_EQ(intel(0x806c1), Microarchitecture::kIceLake);
  EXPECT_EQ(intel(0x90672), Microarchitecture::kAlderLake);
  EXPECT_EQ(intel(0x806f8), Microarchitecture::kSapphireRapids);
  EXPECT_EQ(intel(0xc06f2), Microarchitecture::kSapphireRapids);
  EXPECT_EQ(intel(0xa06d1), Microarchitecture::kGraniteRapids);
  EXPECT_EQ(intel(0x00f43), Microarchitecture::kUnknown);
  EXPECT_EQ(amd(0x800f11), Microarchitecture::kZen1);
  EXPECT_EQ(amd(0x830f10), Microarchitecture::kZen2);
  EXPECT_EQ(amd(0xa00f11), Microarchitecture::kZen3);
  EXPECT_EQ(amd(0xa50f00), Microarchitecture::kZen3);
  EXPECT_EQ(amd(0xa10f11), Microarchitecture::kZen4);
  EXPECT_EQ(amd(0xa60f12), Microarchitecture::kZen4);
  EXPECT_EQ(amd(0xaa0f02), Microarchitecture::kZen4);
  EXPECT_EQ(amd(0xb00f21), Microarchitecture::kZen5);
  EXPECT_EQ(amd(0xb20f40), Microarchitecture::kZen5Mobile);
  EXPECT_EQ(amd(0x600f12), Microarchitecture::kUnknown);
  EXPECT_EQ(FakeCpu("SomebodyElse", 0x806f8).read(0).microarchitecture,
            Microarchitecture::kUnknown);
}

TEST(CpuInfo, FamilyModelBrandAndKey) {
  FakeCpu cpu("AuthenticAMD", 0xb00f21);
  const char brand[49] = "   AMD EPYC 9755 128-Core Processor             ";
  for (uint32_t i = 0; i < 3; ++i) std::memcpy(&cpu.leaf(0x80000002u + i), brand + 16 * i, 16);
  const CpuInfo info = cpu.read(0);
  EXPECT_EQ(info.family, 26);
  EXPECT_EQ(info.model, 2);
  EXPECT_EQ(info.stepping, 1);
  EXPECT_EQ(info.key(),
            "AuthenticAMD family 26 model 2 stepping 1 (AMD EPYC 9755 128-Core Processor)");
}

TEST(CpuInfo, CachesOfBothVendors) {
  const auto set = [](FakeCpu& cpu, uint32_t leaf) {
    const auto cache = [&](uint32_t i, uint32_t type, uint32_t level, uint32_t ways,
                           uint32_t sets) {
      cpu.leaf(leaf, i) = {type | level << 5, (ways - 1) << 22 | 63, sets - 1, 0};
    };
    cache(0, 1, 1, 12, 64);
    cache(1, 2, 1, 8, 64);  // instructions
    cache(2, 3, 2, 16, 2048);
    cache(3, 3, 3, 16, 32768);
  };
  FakeCpu intel("GenuineIntel", 0x806f8), amd("AuthenticAMD", 0xb00f21);
  set(intel, 4);
  set(amd, 0x8000001du);
  for (const CpuInfo& info : {intel.read(0), amd.read(0)}) {
    EXPECT_EQ(info.l1d_bytes, 48 << 10);
    EXPECT_EQ(info.l2_bytes, 2 << 20);
    EXPECT_EQ(info.l3_bytes, 32 << 20);
  }
  EXPECT_EQ(FakeCpu("GenuineIntel", 0x806f8).read(0).l1d_bytes, 0);
}

TEST(CpuInfo, AgreesWithTheSystemsOwnView) {
  std::ifstream file("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("flags")) {
      flags = line.substr(line.find(':') + 1) + " ";
      break;
    }
  if (flags.empty()) GTEST_SKIP() << "no /proc/cpuinfo";
  const auto has = [&](const char* flag) {
    return flags.find(std::string(" ") + flag + " ") != std::string::npos;
  };
  const CpuFeatures& f = cpu_info().features;
  EXPECT_EQ(f.avx2, has("avx2"));
  EXPECT_EQ(f.fma, has("fma"));
  EXPECT_EQ(f.f16c, has("f16c"));
  EXPECT_EQ(f.avx512f, has("avx512f"));
  EXPECT_EQ(f.avx512vnni, has("avx512_vnni"));
  EXPECT_EQ(f.avx512bf16, has("avx512_bf16"));
  EXPECT_EQ(f.avx512fp16, has("avx512_fp16"));
  EXPECT_LE(f.amx_tile, has("amx_tile"));  // the process also needs permission
}

TEST(ChooseIsa, TheStrongestUnlessForced) {
  const std::vector<Isa> both = {Isa::avx2, Isa::avx512};
  EXPECT_EQ(choose_isa(both, nullptr), Isa::avx512);
  EXPECT_EQ(choose_isa(both, ""), Isa::avx512);
  EXPECT_EQ(choose_isa(both, "avx2"), Isa::avx2);
}

TEST(ChooseIsa, ErrorsNameTheValueAndTheChoices) {
  const auto fails = [](const std::vector<Isa>& available, const char* forced, ErrorKind kind,
                        const char* text) {
    try {
      choose_isa(available, forced);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  fails({Isa::avx2, Isa::avx512}, "avx512_fp16", ErrorKind::kUnsupported,
        "TILEWRIGHT_ISA is \"avx512_fp16\"; available here: avx2, avx512");
  fails({Isa::avx2}, "AVX2", ErrorKind::kInvalidArgument,
        "TILEWRIGHT_ISA is \"AVX2\", which is no instruction set; available here: avx2");
  fails({}, nullptr, ErrorKind::kUnsupported, "the least is AVX2");
}

TEST(ChooseIsa, AvailableOnesAreBuiltAndRun) {
  for (const Isa isa : available_isas()) {
    EXPECT_TRUE(runs(isa, cpu_info().features));
    EXPECT_NE(std::count(built_isas().begin(), built_isas().end(), isa), 0);
  }
}

}  // namespace
}  // namespace tw::runtime

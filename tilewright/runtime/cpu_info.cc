#include "tilewright/runtime/cpu_info.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tilewright/built_isas.h"
#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"

namespace tw::runtime {
namespace {

/// The CPUID instruction, executed once per leaf: a hypervisor makes each take microseconds.
Cpuid native_cpuid() {
  struct Seen {
    uint32_t leaf, subleaf;
    CpuidLeaf values;
  };
  return [seen = std::vector<Seen>()](uint32_t leaf, uint32_t subleaf) mutable {
    for (const Seen& entry : seen)
      if (entry.leaf == leaf && entry.subleaf == subleaf) return entry.values;
    CpuidLeaf out;
    __cpuid_count(leaf, subleaf, out.eax, out.ebx, out.ecx, out.edx);
    seen.push_back({leaf, subleaf, out});
    return out;
  };
}

/// XGETBV(0); only where OSXSAVE is set. Spelled as bytes of assembly because the built-in needs a
/// compiler flag that the baseline build does not have.
uint64_t native_xcr0() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

// Bits of XCR0.
constexpr uint64_t kYmm = 0x6, kZmm = 0xe0, kTiles = 0x60000;  // 1-2, 5-7, 17-18

/// Asks for the tiles of AMX, for all threads of the process; whether it has them now.
bool request_tiles() {
  constexpr int kArchReqXcompPerm = 0x1023, kTileData = 18;  // asm/prctl.h of Linux 5.16
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

/// The register state that this process may use.
uint64_t usable_xcr0() {
  const uint64_t saved = native_xcr0();
  return (saved & kTiles) == kTiles && !request_tiles() ? saved & ~kTiles : saved;
}

/// A leaf, or zeros where the processor does not have it (Intel would repeat its last one).
CpuidLeaf leaf_or_zero(const Cpuid& cpuid, uint32_t leaf, uint32_t subleaf) {
  const uint32_t range = leaf & 0x80000000u;
  if (cpuid(range, 0).eax < leaf) return {};
  if (leaf == 7 && subleaf > 0 && cpuid(7, 0).eax < subleaf) return {};
  return cpuid(leaf, subleaf);
}

CpuFeatures read_features(const Cpuid& cpuid, uint64_t xcr0) {
  CpuFeatures f;
#define TW_READ(feature, leaf, subleaf, reg, bit) \
  f.feature = (leaf_or_zero(cpuid, leaf, subleaf).reg >> bit) & 1u;
  TW_FOR_EACH_CPU_FEATURE(TW_READ)
#undef TW_READ
  if (!f.osxsave) xcr0 = 0;
  if ((xcr0 & kYmm) != kYmm) f.avx = f.avx2 = f.fma = f.f16c = f.avxvnni = false;
  if ((xcr0 & (kYmm | kZmm)) != (kYmm | kZmm)) {
    f.avx512f = f.avx512dq = f.avx512ifma = f.avx512cd = f.avx512bw = f.avx512vl = false;
    f.avx512vbmi = f.avx512vbmi2 = f.avx512vnni = f.avx512bitalg = f.avx512vpopcntdq = false;
    f.avx512fp16 = f.avx512bf16 = false;
  }
  if ((xcr0 & kTiles) != kTiles) f.amx_bf16 = f.amx_tile = f.amx_int8 = false;
  return f;
}

std::string read_vendor(const Cpuid& cpuid) {
  const CpuidLeaf leaf = cpuid(0, 0);
  char text[12];
  std::memcpy(text, &leaf.ebx, 4);
  std::memcpy(text + 4, &leaf.edx, 4);
  std::memcpy(text + 8, &leaf.ecx, 4);
  return std::string(text, sizeof text);
}

std::string read_brand(const Cpuid& cpuid) {
  std::string brand;
  for (uint32_t leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf) {
    const CpuidLeaf part = leaf_or_zero(cpuid, leaf, 0);
    char text[16];
    std::memcpy(text, &part, sizeof text);
    brand.append(text, strnlen(text, sizeof text));
  }
  const size_t first = brand.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return brand.substr(first, brand.find_last_not_of(' ') - first + 1);
}

Microarchitecture intel_microarchitecture(int model) {
  switch (model) {
    case 0x3c:
    case 0x3f:
    case 0x45:
    case 0x46:  // Haswell
    case 0x3d:
    case 0x47:
    case 0x4f:
    case 0x56:  // Broadwell
      return Microarchitecture::kHaswell;
    case 0x4e:
    case 0x5e:
    case 0x8e:
    case 0x9e:
    case 0xa5:
    case 0xa6:
      return Microarchitecture::kSkylake;
    case 0x55:
      return Microarchitecture::kSkylakeX;
    case 0x7d:
    case 0x7e:
    case 0x8c:
    case 0x8d:
    case 0xa7:  // Ice, Tiger, Rocket Lake
      return Microarchitecture::kIceLake;
    case 0x6a:
    case 0x6c:
      return Microarchitecture::kIceLakeServer;
    case 0x97:
    case 0x9a:
    case 0xbe:  // Alder Lake
    case 0xb7:
    case 0xba:
    case 0xbf:  // Raptor Lake
    case 0xaa:
    case 0xac:
    case 0xb5:
    case 0xbd:
    case 0xc5:
    case 0xc6:  // Meteor, Lunar, Arrow Lake
      return Microarchitecture::kAlderLake;
    case 0x8f:
    case 0xcf:
      return Microarchitecture::kSapphireRapids;
    case 0xad:
    case 0xae:
      return Microarchitecture::kGraniteRapids;
    default:
      return Microarchitecture::kUnknown;
  }
}

Microarchitecture amd_microarchitecture(int family, int model) {
  const auto within = [model](int first, int last) { return first <= model && model <= last; };
  if (family == 0x17) return model < 0x30 ? Microarchitecture::kZen1 : Microarchitecture::kZen2;
  if (family == 0x19) {
    const bool zen4 = within(0x10, 0x1f) || within(0x60, 0xaf);
    return zen4 ? Microarchitecture::kZen4 : Microarchitecture::kZen3;
  }
  if (family == 0x1a) {
    const bool mobile = within(0x20, 0x2f) || within(0x60, 0x6f);
    return mobile ? Microarchitecture::kZen5Mobile : Microarchitecture::kZen5;
  }
  return Microarchitecture::kUnknown;
}

/// Sizes of the data caches from the deterministic cache leaf: 4 on Intel, 0x8000001d on AMD.
void read_caches(const Cpuid& cpuid, uint32_t leaf, CpuInfo& out) {
  constexpr uint32_t kMostCaches = 16;
  for (uint32_t i = 0; i < kMostCaches; ++i) {
    const CpuidLeaf cache = leaf_or_zero(cpuid, leaf, i);
    const uint32_t type = cache.eax & 31, level = (cache.eax >> 5) & 7;
    if (type == 0) return;
    if (type == 2) continue;  // instructions
    const int64_t ways = (cache.ebx >> 22) + 1, partitions = ((cache.ebx >> 12) & 0x3ff) + 1;
    const int64_t line = (cache.ebx & 0xfff) + 1, sets = int64_t{cache.ecx} + 1;
    const int64_t bytes = ways * partitions * line * sets;  // at most 2^10 2^10 2^12 2^32
    if (level == 1) out.l1d_bytes = bytes;
    if (level == 2) out.l2_bytes = bytes;
    if (level == 3) out.l3_bytes = bytes;
  }
}

std::string list_names(const std::vector<Isa>& isas) {
  std::string out;
  for (const Isa isa : isas) out += (out.empty() ? "" : ", ") + std::string(name(isa));
  return out;
}

}  // namespace

std::string_view name(Microarchitecture microarchitecture) {
  switch (microarchitecture) {
    case Microarchitecture::kUnknown:
      return "unknown";
    case Microarchitecture::kHaswell:
      return "Haswell";
    case Microarchitecture::kSkylake:
      return "Skylake";
    case Microarchitecture::kSkylakeX:
      return "Skylake-X";
    case Microarchitecture::kIceLake:
      return "Ice Lake";
    case Microarchitecture::kIceLakeServer:
      return "Ice Lake server";
    case Microarchitecture::kAlderLake:
      return "Alder Lake";
    case Microarchitecture::kSapphireRapids:
      return "Sapphire Rapids";
    case Microarchitecture::kGraniteRapids:
      return "Granite Rapids";
    case Microarchitecture::kZen1:
      return "Zen 1";
    case Microarchitecture::kZen2:
      return "Zen 2";
    case Microarchitecture::kZen3:
      return "Zen 3";
    case Microarchitecture::kZen4:
      return "Zen 4";
    case Microarchitecture::kZen5:
      return "Zen 5";
    case Microarchitecture::kZen5Mobile:
      return "Zen 5 mobile";
  }
  return "?";
}

std::string CpuInfo::key() const {
  return vendor + " family " + std::to_string(family) + " model " + std::to_string(model) +
         " stepping " + std::to_string(stepping) + " (" + brand + ")";
}

CpuInfo read_cpu_info(const Cpuid& cpuid, uint64_t xcr0) {
  CpuInfo out;
  out.vendor = read_vendor(cpuid);
  out.brand = read_brand(cpuid);
  const uint32_t version = leaf_or_zero(cpuid, 1, 0).eax;
  const uint32_t family = (version >> 8) & 15, model = (version >> 4) & 15;
  out.stepping = int(version & 15);
  out.family = int(family == 15 ? family + ((version >> 20) & 255) : family);
  const bool extended = family == 15 || family == 6;
  out.model = int(extended ? model | ((version >> 12) & 0xf0) : model);
  out.features = read_features(cpuid, xcr0);
  const bool amd = out.vendor == "AuthenticAMD" || out.vendor == "HygonGenuine";
  if (amd) out.microarchitecture = amd_microarchitecture(out.family, out.model);
  if (out.vendor == "GenuineIntel" && out.family == 6)
    out.microarchitecture = intel_microarchitecture(out.model);
  // A hypervisor may report an older model; no core that multiplies tiles is older than this.
  if (out.features.amx_tile && out.microarchitecture != Microarchitecture::kGraniteRapids)
    out.microarchitecture = Microarchitecture::kSapphireRapids;
  read_caches(cpuid, amd ? 0x8000001du : 4u, out);
  return out;
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = [] {
    const Cpuid cpuid = native_cpuid();
    const bool osxsave = (cpuid(1, 0).ecx >> 27) & 1u;
    return read_cpu_info(cpuid, osxsave ? usable_xcr0() : 0);
  }();
  return info;
}

std::string_view missing_feature(Isa isa, const CpuFeatures& features) {
  struct Need {
    Isa isa;  // and all after it
    bool CpuFeatures::* has;
    std::string_view name;
  };
#define TW_NEED(isa, feature)                 \
  Need {                                      \
    Isa::isa, &CpuFeatures::feature, #feature \
  }
  static constexpr Need kNeeds[] = {TW_NEED(avx2, avx),
                                    TW_NEED(avx2, avx2),
                                    TW_NEED(avx2, fma),
                                    TW_NEED(avx2, f16c),
                                    TW_NEED(avx2, bmi1),
                                    TW_NEED(avx2, bmi2),
                                    TW_NEED(avx512, avx512f),
                                    TW_NEED(avx512, avx512bw),
                                    TW_NEED(avx512, avx512dq),
                                    TW_NEED(avx512, avx512vl),
                                    TW_NEED(avx512, avx512cd),
                                    TW_NEED(avx512_vnni, avx512vnni),
                                    TW_NEED(avx512_vnni, avx512vbmi),
                                    TW_NEED(avx512_vnni, avx512vbmi2),
                                    TW_NEED(avx512_vnni, avx512bitalg),
                                    TW_NEED(avx512_vnni, avx512vpopcntdq),
                                    TW_NEED(avx512_vnni, avx512ifma),
                                    TW_NEED(avx512_vnni, gfni),
                                    TW_NEED(avx512_bf16, avx512bf16),
                                    TW_NEED(avx512_fp16, avx512fp16),
                                    TW_NEED(amx, amx_tile),
                                    TW_NEED(amx, amx_bf16),
                                    TW_NEED(amx, amx_int8)};
#undef TW_NEED
  for (const Need& need : kNeeds)
    if (need.isa <= isa && !(features.*need.has)) return need.name;
  return {};
}

bool runs(Isa isa, const CpuFeatures& features) {
  return missing_feature(isa, features).empty();
}

const std::vector<Isa>& built_isas() {
#define TW_LIST(isa) Isa::isa,
  static const std::vector<Isa> isas = {TW_FOR_EACH_BUILT_ISA(TW_LIST)};
#undef TW_LIST
  return isas;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> out;
  for (const Isa isa : built_isas())
    if (runs(isa, cpu_info().features)) out.push_back(isa);
  std::sort(out.begin(), out.end());
  return out;
}

Isa choose_isa(const std::vector<Isa>& available, const char* forced) {
  if (available.empty()) {
    throw Error(ErrorKind::kUnsupported, "this processor (" + cpu_info().brand +
                                             ") can run none of the kernels in this build (" +
                                             list_names(built_isas()) +
                                             "); the least is AVX2 with FMA, F16C, BMI1 and BMI2");
  }
  if (forced == nullptr || *forced == '\0') return available.back();
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    if (name(isa) != std::string_view(forced)) continue;
    if (std::find(available.begin(), available.end(), isa) != available.end()) return isa;
    throw Error(ErrorKind::kUnsupported, "TILEWRIGHT_ISA is \"" + printable(forced, 80) +
                                             "\"; available here: " + list_names(available));
  }
  throw Error(ErrorKind::kInvalidArgument,
              "TILEWRIGHT_ISA is \"" + printable(forced, 80) +
                  "\", which is no instruction set; available here: " + list_names(available));
}

Isa detect_isa() {
  return choose_isa(available_isas(), std::getenv("TILEWRIGHT_ISA"));
}

}  // namespace tw::runtime

// Which processor this is, and which builds of the kernels it can run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/machine.h"
#include "tilewright/core/macros.h"

namespace tw::runtime {

struct CpuidLeaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};
/// The CPUID instruction: (leaf, subleaf) to registers. Tests put made-up processors behind it.
using Cpuid = std::function<CpuidLeaf(uint32_t leaf, uint32_t subleaf)>;

// X(feature, leaf, subleaf, register, bit), from the Intel SDM vol. 2A (CPUID) and the AMD APM
// vol. 3 appendix E. Only what the kernels' builds need, or what a reader of `tilewright env` would
// ask for.
#define TW_FOR_EACH_CPU_FEATURE(X)  \
  X(fma, 1, 0, ecx, 12)             \
  X(movbe, 1, 0, ecx, 22)           \
  X(popcnt, 1, 0, ecx, 23)          \
  X(osxsave, 1, 0, ecx, 27)         \
  X(avx, 1, 0, ecx, 28)             \
  X(f16c, 1, 0, ecx, 29)            \
  X(hypervisor, 1, 0, ecx, 31)      \
  X(bmi1, 7, 0, ebx, 3)             \
  X(avx2, 7, 0, ebx, 5)             \
  X(bmi2, 7, 0, ebx, 8)             \
  X(avx512f, 7, 0, ebx, 16)         \
  X(avx512dq, 7, 0, ebx, 17)        \
  X(avx512ifma, 7, 0, ebx, 21)      \
  X(avx512cd, 7, 0, ebx, 28)        \
  X(avx512bw, 7, 0, ebx, 30)        \
  X(avx512vl, 7, 0, ebx, 31)        \
  X(avx512vbmi, 7, 0, ecx, 1)       \
  X(avx512vbmi2, 7, 0, ecx, 6)      \
  X(gfni, 7, 0, ecx, 8)             \
  X(avx512vnni, 7, 0, ecx, 11)      \
  X(avx512bitalg, 7, 0, ecx, 12)    \
  X(avx512vpopcntdq, 7, 0, ecx, 14) \
  X(amx_bf16, 7, 0, edx, 22)        \
  X(avx512fp16, 7, 0, edx, 23)      \
  X(amx_tile, 7, 0, edx, 24)        \
  X(amx_int8, 7, 0, edx, 25)        \
  X(avxvnni, 7, 1, eax, 4)          \
  X(avx512bf16, 7, 1, eax, 5)

/// Feature bits as the instruction set has them and this process may use their registers.
struct CpuFeatures {
#define TW_FIELD(feature, ...) bool feature = false;
  TW_FOR_EACH_CPU_FEATURE(TW_FIELD)
#undef TW_FIELD
};

/// Families of cores that differ in what an instruction costs.
enum class Microarchitecture : uint8_t {
  kUnknown,
  kHaswell,         // and Broadwell
  kSkylake,         // client: AVX2 only
  kSkylakeX,        // and Cascade Lake, Cooper Lake
  kIceLake,         // client, Tiger Lake, Rocket Lake: one 512-bit FMA pipe
  kIceLakeServer,   // two
  kAlderLake,       // and Raptor, Meteor, Arrow, Lunar Lake: AVX2 only
  kSapphireRapids,  // and Emerald Rapids
  kGraniteRapids,
  kZen1,
  kZen2,
  kZen3,
  kZen4,
  kZen5,
  kZen5Mobile,  // 256-bit data paths
};
TW_API std::string_view name(Microarchitecture microarchitecture);

struct CpuInfo {
  std::string vendor;  // "GenuineIntel", "AuthenticAMD"
  std::string brand;   // as the processor spells it, blanks trimmed
  int family = 0, model = 0, stepping = 0;
  Microarchitecture microarchitecture = Microarchitecture::kUnknown;
  CpuFeatures features;
  int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // 0 when not reported

  /// "AuthenticAMD family 25 model 1 stepping 1 (AMD EPYC)": what calibration is filed under.
  std::string key() const;
};

/// Reads a processor through `cpuid`; `xcr0` is the register state that the process may use, in the
/// bits of XGETBV(0), which tells what the operating system saves.
TW_API CpuInfo read_cpu_info(const Cpuid& cpuid, uint64_t xcr0);

/// The processor this process runs on, read once. Where it has AMX, reading asks the kernel for the
/// process's permission to use tiles (Linux grants their 8 KiB per thread on demand only); without
/// it, which a signal stack too small for them prevents, AMX counts as absent.
TW_API const CpuInfo& cpu_info();

/// The first feature that code of a build needs and the processor lacks; empty where it can run.
TW_API std::string_view missing_feature(Isa isa, const CpuFeatures& features);
/// Whether code of that build can run on a processor with these features.
TW_API bool runs(Isa isa, const CpuFeatures& features);

/// The builds in this binary, weakest first.
TW_API const std::vector<Isa>& built_isas();

/// The builds in this binary that this machine can run, weakest first; empty below AVX2.
TW_API std::vector<Isa> available_isas();

/// Chooses from `available`: the strongest, or the one named `forced` (null or empty: none). Throws
/// Error{kInvalidArgument} for an unknown name, {kUnsupported} for one that is not available or
/// when nothing is.
TW_API Isa choose_isa(const std::vector<Isa>& available, const char* forced);

/// The build to run: choose_isa() with the environment variable TILEWRIGHT_ISA.
TW_API Isa detect_isa();

}  // namespace tw::runtime

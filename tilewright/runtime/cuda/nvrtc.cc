#include "tilewright/runtime/cuda/nvrtc.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <dlfcn.h>

namespace tw::runtime::cuda {
namespace {

namespace fs = std::filesystem;

struct ProgramOpaque;
using Program = ProgramOpaque*;
using NvrtcResult = int;  // nvrtcResult; 0 is success

// X(member, symbol, parameters), by NVRTC's reference manual.
#define TW_FOR_EACH_NVRTC_FUNCTION(X)                                                         \
  X(version, "nvrtcVersion", (int* major, int* minor))                                        \
  X(architecture_count, "nvrtcGetNumSupportedArchs", (int* count))                            \
  X(list_architectures, "nvrtcGetSupportedArchs", (int* architectures))                       \
  X(create, "nvrtcCreateProgram",                                                             \
    (Program * program, const char* text, const char* name, int headers, const char** texts,  \
     const char** names))                                                                     \
  X(destroy, "nvrtcDestroyProgram", (Program * program))                                      \
  X(compile, "nvrtcCompileProgram", (Program program, int count, const char* const* options)) \
  X(cubin_size, "nvrtcGetCUBINSize", (Program program, size_t* bytes))                        \
  X(cubin, "nvrtcGetCUBIN", (Program program, char* to))                                      \
  X(log_size, "nvrtcGetProgramLogSize", (Program program, size_t* bytes))                     \
  X(log, "nvrtcGetProgramLog", (Program program, char* to))

struct Functions {
#define TW_MEMBER(member, symbol, parameters) NvrtcResult(*member) parameters;
  TW_FOR_EACH_NVRTC_FUNCTION(TW_MEMBER)
#undef TW_MEMBER
};

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr size_t kMostLog = 4000;  // characters of the compiler's messages in an error

/// The packages of PyPI below a folder of Python packages: nvidia-cuda-nvrtc, and -cu12 before it.
void add_packages(const fs::path& site, std::vector<std::string>& to) {
  to.push_back((site / "nvidia/cu13/lib/libnvrtc.so.13").string());
  to.push_back((site / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12").string());
}

/// The folder of Python packages that this library lies in, if it does: its own package is there.
fs::path own_site() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_site), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  const fs::path library = fs::canonical(info.dli_fname, error);
  return error ? fs::path() : library.parent_path().parent_path();
}

struct Opened {
  Functions functions{};
  NvrtcInfo info;
  Support support = Support::yes();
};

/// The functions of a library, and what it says of itself; a reason if that is not what we need.
Support bind(void* library, Opened& to) {
#define TW_FIND(member, symbol, parameters)                                                  \
  to.functions.member = reinterpret_cast<NvrtcResult(*) parameters>(dlsym(library, symbol)); \
  if (to.functions.member == nullptr) return Support::no("it is too old: it has no " symbol);
  TW_FOR_EACH_NVRTC_FUNCTION(TW_FIND)
#undef TW_FIND
  int count = 0;
  if (to.functions.version(&to.info.major, &to.info.minor) != 0 ||
      to.functions.architecture_count(&count) != 0 || count < 1)
    return Support::no("it does not say which GPUs it compiles for");
  to.info.architectures.resize(size_t(count));
  if (to.functions.list_architectures(to.info.architectures.data()) != 0)
    return Support::no("it does not say which GPUs it compiles for");
  Dl_info where{};
  if (dladdr(reinterpret_cast<const void*>(to.functions.version), &where) != 0)
    to.info.path = where.dli_fname;
  return Support::yes();
}

/// NVRTC opens its builtins by their name alone, and not every package tells the loader to look
/// beside it. What is open by that name is found.
void open_builtins(const NvrtcInfo& info) {
  const std::string name =
      "libnvrtc-builtins.so." + std::to_string(info.major) + "." + std::to_string(info.minor);
  dlopen((fs::path(info.path).parent_path() / name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

Opened open() {
  Opened out;
  std::string tried;
  for (const std::string& name : nvrtc_candidates()) {
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    const Support bound = library == nullptr ? Support::no("") : bind(library, out);
    if (bound && library != nullptr) {
      open_builtins(out.info);
      return out;
    }
    tried += (tried.empty() ? "" : ", ") + name;
    if (!bound.reason().empty()) tried += " (" + bound.reason() + ")";
    if (library != nullptr) dlclose(library);
  }
  out.support = Support::no("there is no NVRTC; looked for " + tried +
                            ". `pip install nvidia-cuda-nvrtc` installs it; TILEWRIGHT_NVRTC may "
                            "name the file");
  return out;
}

const Opened& opened() {
  static const Opened kOpened = open();
  return kOpened;
}

/// A program of NVRTC that goes when it is no longer looked at.
class Compilation {
 public:
  Compilation(const DeviceProgram& program, const std::string& name) {
    std::vector<const char*> texts, paths;
    for (const DeviceProgram::Header& header : program.headers) {
      texts.push_back(header.text.c_str());
      paths.push_back(header.path.c_str());
    }
    if (opened().functions.create(&program_, program.text.c_str(), name.c_str(),
                                  int(program.headers.size()), texts.data(), paths.data()) != 0)
      throw Error(ErrorKind::kInternal, name + ": nvrtcCreateProgram failed");
  }
  ~Compilation() { opened().functions.destroy(&program_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  bool compile(const std::vector<const char*>& options) {
    return opened().functions.compile(program_, int(options.size()), options.data()) == 0;
  }
  std::string cubin() const {
    return text(opened().functions.cubin_size, opened().functions.cubin);
  }
  std::string log() const {
    std::string out = text(opened().functions.log_size, opened().functions.log);
    while (!out.empty() && (out.back() == '\0' || out.back() == '\n')) out.pop_back();
    return out;
  }

 private:
  template <class Size, class Get>
  std::string text(Size size, Get get) const {
    size_t bytes = 0;
    if (size(program_, &bytes) != 0) return {};
    std::string out(bytes, '\0');
    return get(program_, out.data()) == 0 ? out : std::string();
  }

  Program program_ = nullptr;
};

void require_architecture(std::string_view op, std::string_view architecture) {
  std::string known;
  for (const int number : nvrtc().architectures) {
    const std::string name = "sm_" + std::to_string(number);
    if (architecture == name || architecture == name + "a") return;
    known += (known.empty() ? "" : " ") + name;
  }
  throw Error(ErrorKind::kUnsupported,
              std::string(op) + ": NVRTC " + std::to_string(nvrtc().major) + "." +
                  std::to_string(nvrtc().minor) + " (" + nvrtc().path + ") does not compile for " +
                  std::string(architecture) + "; it knows " + known);
}

}  // namespace

std::vector<std::string> nvrtc_candidates() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const fs::path chosen = variable("TILEWRIGHT_NVRTC"); !chosen.empty())
    return {chosen.string()};
  std::vector<std::string> out(std::begin(kNames), std::end(kNames));
  for (const fs::path& toolkit : {variable("CUDA_HOME"), fs::path("/usr/local/cuda")})
    for (const char* name : kNames)
      if (!toolkit.empty()) out.push_back((toolkit / "lib64" / name).string());
  if (const fs::path site = own_site(); !site.empty()) add_packages(site, out);
  if (const fs::path environment = variable("VIRTUAL_ENV"); !environment.empty()) {
    std::error_code error;
    std::vector<fs::path> sites;
    for (const fs::directory_entry& python : fs::directory_iterator(environment / "lib", error))
      if (python.path().filename().string().starts_with("python"))
        sites.push_back(python.path() / "site-packages");
    std::sort(sites.begin(), sites.end());
    for (const fs::path& site : sites) add_packages(site, out);
  }
  return out;
}

const Support& nvrtc_availability() {
  return opened().support;
}

const NvrtcInfo& nvrtc() {
  if (!nvrtc_availability())
    throw Error(ErrorKind::kUnsupported, "cuda: " + nvrtc_availability().reason());
  return opened().info;
}

std::string compile_cubin(std::string_view op, const DeviceProgram& program,
                          std::string_view architecture, const std::vector<std::string>& options) {
  require_architecture(op, architecture);
  const std::string chosen = "-arch=" + std::string(architecture);
  std::vector<const char*> all{chosen.c_str()};
  for (const std::string& option : options) all.push_back(option.c_str());
  Compilation compilation(program, std::string(op) + ".cu");
  const bool compiled = compilation.compile(all);
  std::string cubin = compiled ? compilation.cubin() : std::string();
  if (cubin.empty())
    throw Error(ErrorKind::kInternal, std::string(op) + ": its kernel does not compile for " +
                                          std::string(architecture) + ":\n" +
                                          compilation.log().substr(0, kMostLog));
  return cubin;
}

}  // namespace tw::runtime::cuda

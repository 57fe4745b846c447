#include "tilewright/runtime/cuda/device_text.h"

#include <map>

#include "tilewright/core/error.h"

namespace tw::runtime::cuda {
namespace {

using Files = std::map<std::string_view, std::string_view>;  // text by path

/// No line of C++ begins with `@`.
Files split(std::string_view all) {
  Files out;
  while (!all.empty()) {
    const size_t name_end = all.find('\n'), next = all.find("\n@", name_end);
    const size_t end = next == std::string_view::npos ? all.size() : next + 1;
    out.emplace(all.substr(1, name_end - 1), all.substr(name_end + 1, end - name_end - 1));
    all.remove_prefix(end);
  }
  return out;
}

const Files& files() {
  static const Files kFiles = split(embedded_text());
  return kFiles;
}

/// Adds the files that `text` includes, unless they are there. Some are behind conditions that do
/// not hold on a GPU, and not embedded.
void add_includes(std::string_view text, Files& to) {
  constexpr std::string_view kInclude = "#include \"";
  for (size_t at = text.find(kInclude); at != std::string_view::npos;
       at = text.find(kInclude, at + 1)) {
    const size_t begin = at + kInclude.size();
    const auto found = files().find(text.substr(begin, text.find('"', begin) - begin));
    if (found != files().end() && to.insert(*found).second) add_includes(found->second, to);
  }
}

DeviceProgram with_headers(std::string text) {
  Files used;
  add_includes(text, used);
  DeviceProgram out{std::move(text), {}};
  for (const auto& [path, content] : used)
    out.headers.push_back({std::string(path), std::string(content)});
  return out;
}

constexpr std::string_view kFirst = "#include \"tilewright/tile/cuda/rtc.h\"\n";

// As cmake/cuda_kernel.cu.in, for one way of one kernel.
constexpr std::string_view kEntry = R"(
#include "tilewright/tile/cuda/entry.h"

namespace tw::cuda_entry {
static_assert(sizeof(Given) > 0);  // complete, before anything is asked of it
template <class K>
__device__ const K& given();
using Kernel = decltype(tile::cuda::device_kernel(given<Given>()));
__global__ void __launch_bounds__(tile::cuda::kMaxThreads, tile::cuda::min_blocks<Kernel>())
    run(const __grid_constant__ Kernel kernel, const __grid_constant__ tile::cuda::Launch launch) {
  tile::cuda::run<kWay>(kernel, launch);
}
}  // namespace tw::cuda_entry
)";

}  // namespace

DeviceProgram neutral_program(std::string_view op, std::string_view kernel_type, int way) {
  const std::string header = "tilewright/ops/" + std::string(op) + ".h";
  if (!files().contains(header))
    throw Error(ErrorKind::kUnsupported,
                std::string(op) + ": this library has no text of its kernels for GPUs");
  std::string text(kFirst);
  text += "#include \"" + header + "\"\n";
  text += "namespace tw::cuda_entry {\nusing Given = " + std::string(kernel_type) + ";\n";
  text += "constexpr int kWay = " + std::to_string(way) + ";\n}\n";
  text += kEntry;
  return with_headers(std::move(text));
}

void replace_header(DeviceProgram& program, std::string_view path, std::string text) {
  for (DeviceProgram::Header& header : program.headers) {
    if (header.path != path) continue;
    header.text = std::move(text);
    return;
  }
  throw Error(ErrorKind::kInternal, "no header " + std::string(path) + " in a device program");
}

DeviceProgram own_program(std::string_view name, const std::vector<std::string_view>& definitions) {
  std::string text;
  for (const std::string_view definition : definitions)
    text += "#define " + std::string(definition) + "\n";
  text += kFirst;
  text += "#include \"tilewright/runtime/cuda/" + std::string(name) + "_kernels.cu\"\n";
  return with_headers(std::move(text));
}

}  // namespace tw::runtime::cuda

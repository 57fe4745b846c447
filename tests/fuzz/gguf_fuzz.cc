// GGUF bytes -> parse, read all metadata, dequantise the small tensors, load a model where the file
// is small. Only tw::Error may escape.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "tilewright/core/block_formats.h"
#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tilewright/models/decoder/decoder.h"
#include "tilewright/models/gguf.h"
#include "tilewright/runtime/thread_pool.h"

namespace {

using tw::models::GgufEntry;
using tw::models::GgufFile;
using tw::models::GgufTensor;
using tw::models::GgufType;

// Runs a look-up that may refuse the value's type.
template <class Call>
void attempt(Call call) {
  try {
    (void)call();
  } catch (const tw::Error&) {
  }
}

void read_metadata(const GgufFile& file) {
  for (const GgufEntry& entry : file.metadata()) {
    const auto found = file.find(entry.key);
    if (!found || found->offset != entry.offset) std::abort();
    if (tw::printable(entry.key).empty()) std::abort();
    attempt([&] { return file.find_u32(entry.key); });
    attempt([&] { return file.find_f32(entry.key); });
    attempt([&] { return file.find_bool(entry.key); });
    attempt([&] { return file.find_ints(entry.key)->to_vector(); });
    attempt([&] { return file.find_floats(entry.key)->to_vector(); });
    if (entry.value.element_type() != GgufType::kString) continue;
    size_t bytes = 0;
    for (const std::string_view text : entry.value.strings()) bytes += tw::printable(text).size();
    if (bytes > 4 * size_t(file.size_bytes())) std::abort();
  }
}

void read_tensors(const GgufFile& file) {
  constexpr int64_t kLargest = 1 << 16;  // elements
  std::vector<float> values;
  for (const GgufTensor& tensor : file.tensors()) {
    const auto found = file.find_tensor(tensor.name);
    if (!found || found->data != tensor.data || found->bytes != tensor.bytes) std::abort();
    if (tensor.elements > kLargest) continue;
    values.resize(size_t(tensor.elements));
    tw::dequantize(tensor.dtype, tensor.data, values.data(), tensor.elements);
  }
}

void load_model(const GgufFile& file) {
  constexpr int64_t kLargest = 1 << 16;  // bytes; more than the seed's, and loaded at once
  if (file.size_bytes() > kLargest) return;
  static tw::runtime::ThreadPool pool(1);
  attempt([&] { return tw::models::Decoder::load(file, pool); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const GgufFile file = GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    read_metadata(file);
    read_tensors(file);
    load_model(file);
  } catch (const tw::Error&) {
  }
  return 0;
}

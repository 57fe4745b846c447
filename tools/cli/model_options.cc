#include "tools/cli/model_options.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <new>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "tilewright/core/block_formats.h"
#include "tilewright/core/printable.h"
#include "tilewright/models/tokenizer/from_gguf.h"
#include "tilewright/models/tokenizer/text_encoder.h"
#include "tools/cli/arguments.h"

namespace tw::cli {
namespace {

/// Whether reading has failed, not ended: a folder opens, and fails at the first byte. std::cin
/// takes an error for the end.
bool read_failed(const std::istream& in) {
  return in.bad() || (&in == &std::cin && std::ferror(stdin) != 0);
}

[[noreturn]] void fail_reading(const std::string& name) {
  throw Error(ErrorKind::kIo, "cannot read '" + printable(name) + "'");
}

/// Room for all that a text may hold. The system gives pages once they are written, so that a text
/// takes what it holds; one that grows is copied, and takes twice that.
void reserve_most(std::string& text) {
  try {
    text.reserve(models::kMaxTextBytes);
  } catch (const std::bad_alloc&) {  // a limit of addresses: it may fit if it grows
  }
}

/// "element N is nan": the first element of a tensor that is NaN or infinite. Empty: there is none.
std::string first_that_is_no_number(const models::GgufTensor& tensor) {
  std::string out;
  for_values(tensor, [&](int64_t start, std::span<const float> values) {
    const auto found =
        std::find_if_not(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
    if (out.empty() && found != values.end())
      out = "element " + std::to_string(start + (found - values.begin())) +
            (std::isnan(*found) ? " is nan" : " is infinite");
  });
  return out;
}

void append_bounded(std::string& text, std::string_view more, const std::string& name) {
  if (text.size() + more.size() > models::kMaxTextBytes)  // a device without an end, say
    throw Error(ErrorKind::kInvalidArgument, "'" + printable(name) + "' holds more than " +
                                                 std::to_string(models::kMaxTextBytes) + " bytes");
  constexpr size_t kSmall = size_t{1} << 20;
  if (text.size() + more.size() > kSmall && text.capacity() < models::kMaxTextBytes)
    reserve_most(text);
  text += more;
}

}  // namespace

void for_values(const models::GgufTensor& tensor,
                const std::function<void(int64_t, std::span<const float>)>& f) {
  constexpr int64_t kPiece = 1 << 16;  // elements; a multiple of every block size
  std::vector<float> values(size_t(std::min(tensor.elements, kPiece)));
  const int64_t in_block = info(tensor.dtype).block_elements;
  for (int64_t start = 0; start < tensor.elements; start += kPiece) {
    const int64_t count = std::min(kPiece, tensor.elements - start);
    const std::byte* blocks = tensor.data + start / in_block * element_size(tensor.dtype);
    dequantize(tensor.dtype, blocks, values.data(), count);
    f(start, {values.data(), size_t(count)});
  }
}

ProgressBar::ProgressBar(const char* work) : work_(work), shown_(isatty(STDERR_FILENO) != 0) {}
ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}
void ProgressBar::operator()(double done) const {
  if (shown_) std::fprintf(stderr, "\r%s %3.0f %%", work_, 100 * done);
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  command.add_option("MODEL", options.path, "GGUF file")->required();
  add_number(command, "--threads", options.threads, "Threads; default: every processor we may use",
             {1, runtime::ThreadPool::kMaxThreads}, false);
  command.add_flag("--exact", options.exact,
                   "Multiply float32 by the exact weights; default: int8 or bf16 activations");
  command.add_flag("--json", options.as_json, "Print JSON");
}

LoadedModel load_model(const ModelOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<runtime::ThreadPool> own_pool;
  if (options.threads > 0) own_pool = std::make_unique<runtime::ThreadPool>(options.threads);
  runtime::ThreadPool& pool = own_pool ? *own_pool : runtime::default_pool();
  models::GgufFile file = models::GgufFile::open(options.path);
  models::Tokenizer tokenizer = models::tokenizer_from_gguf(file);
  const ProgressBar bar("loading");
  models::Decoder decoder = models::Decoder::load(file, pool, bar);
  if (tokenizer.vocab_size() > decoder.config().vocabulary)
    throw file.tensor_error("token_embd.weight",
                            "it has " + std::to_string(decoder.config().vocabulary) +
                                " rows, fewer than the tokenizer has tokens, " +
                                std::to_string(tokenizer.vocab_size()));
  runtime::Context context(pool);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {std::move(own_pool),  std::move(context), std::move(file),
          std::move(tokenizer), std::move(decoder), seconds};
}

void check_tokens(const LoadedModel& model, const std::vector<int32_t>& tokens) {
  const models::DecoderConfig& config = model.decoder.config();
  for (const int32_t token : tokens)
    if (token < 0 || token >= config.vocabulary)
      throw Error(ErrorKind::kInvalidArgument,
                  "--tokens: " + std::to_string(token) + " is not in 0.." +
                      std::to_string(config.vocabulary - 1) + ", the model's vocabulary");
  if (int64_t(tokens.size()) > config.context_length)
    throw Error(ErrorKind::kInvalidArgument, "--tokens: " + std::to_string(tokens.size()) +
                                                 " tokens, the model's context is " +
                                                 std::to_string(config.context_length));
}

Error outputs_are_no_numbers(const models::GgufFile& file) {
  constexpr const char* kWhat = "the model's outputs are not numbers";
  for (const models::GgufTensor& tensor : file.tensors())
    if (const std::string why = first_that_is_no_number(tensor); !why.empty())
      return file.tensor_error(tensor.name, why + ": " + kWhat);
  return {ErrorKind::kBadFile, printable(file.name()) + ": " + kWhat};
}

models::ChatTemplate parse_template(std::string_view source, std::string name) {
  try {
    return models::ChatTemplate(source, std::move(name));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    throw Error(ErrorKind::kBadFile, error.what());
  }
}

models::ChatTemplate template_of(const models::GgufFile& file) {
  constexpr const char* kKey = "tokenizer.chat_template";
  const auto source = file.find_string(kKey);
  if (!source)
    throw Error(ErrorKind::kUnsupported,
                printable(file.name()) + ": the model has no chat template");
  return parse_template(*source, printable(file.name()) + ": metadata '" + kKey + "' (at byte " +
                                     std::to_string(file.find(kKey)->offset) + ")");
}

std::string read_text(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  if (path != "-" && !file.is_open()) fail_reading(path);
  std::string text;
  std::vector<char> piece(size_t{1} << 16);
  while (in.read(piece.data(), std::streamsize(piece.size())), in.gcount() > 0)
    append_bounded(text, {piece.data(), size_t(in.gcount())}, path);
  if (read_failed(in)) fail_reading(path);
  return text;
}

bool read_line(std::istream& in, const std::string& name, std::string& line) {
  // Not std::getline(), which reads a line without an end until no memory is left.
  std::array<char, 1 << 14> piece;
  line.clear();
  for (;;) {
    in.getline(piece.data(), std::streamsize(piece.size()));
    const size_t read = size_t(in.gcount());
    if (in.good()) {  // it counts the end of the line, too
      append_bounded(line, {piece.data(), read - 1}, name);
      return true;
    }
    if (read_failed(in)) fail_reading(name);
    append_bounded(line, {piece.data(), read}, name);
    if (in.eof()) return !line.empty();
    in.clear();  // of the piece being full
  }
}

int64_t peak_rss_bytes() {
  // Not getrusage(), whose figure begins with what the parent had when it started this process.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

}  // namespace tw::cli

#include "tools/cli/model_options.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "tilewright/core/printable.h"
#include "tilewright/models/tokenizer/from_gguf.h"
#include "tilewright/models/tokenizer/text_encoder.h"
#include "tools/cli/arguments.h"

namespace tw::cli {
namespace {

class ProgressBar {
 public:
  ProgressBar() : shown_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressBar() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  void operator()(double done) const {
    if (shown_) std::fprintf(stderr, "\rloading %3.0f %%", 100 * done);
  }

 private:
  bool shown_;
};

}  // namespace

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
  const ProgressBar bar;
  models::Decoder decoder = models::Decoder::load(file, pool, bar);
  if (tokenizer.vocab_size() > decoder.config().vocabulary)
    throw Error(ErrorKind::kBadFile, printable(options.path) + ": the tokenizer has " +
                                         std::to_string(tokenizer.vocab_size()) +
                                         " tokens, but the model only " +
                                         std::to_string(decoder.config().vocabulary));
  runtime::Context context(pool);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {std::move(own_pool),  std::move(context), std::move(file),
          std::move(tokenizer), std::move(decoder), seconds};
}

std::string read_text(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  const bool opened = path == "-" || file.is_open();
  std::string text;
  std::vector<char> piece(size_t{1} << 16);
  while (opened && (in.read(piece.data(), std::streamsize(piece.size())), in.gcount() > 0)) {
    if (text.size() + size_t(in.gcount()) > models::kMaxTextBytes)  // a device without an end, say
      throw Error(ErrorKind::kInvalidArgument, "'" + printable(path) + "' holds more than " +
                                                   std::to_string(models::kMaxTextBytes) +
                                                   " bytes");
    text.append(piece.data(), size_t(in.gcount()));
  }
  if (!opened || read_failed(in))
    throw Error(ErrorKind::kIo, "cannot read '" + printable(path) + "'");
  return text;
}

bool read_failed(const std::istream& in) {
  return in.bad() || (&in == &std::cin && std::ferror(stdin) != 0);
}

int64_t peak_rss_bytes() {
  // Not getrusage(), whose figure begins with what the parent had when it started this process.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

}  // namespace tw::cli

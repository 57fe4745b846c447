// What the subcommands that run a model share: its options, loading it, and reading text.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "tilewright/models/decoder/decoder.h"
#include "tilewright/models/gguf.h"
#include "tilewright/models/tokenizer/tokenizer.h"
#include "tilewright/runtime/context.h"

namespace CLI {
class App;
}

namespace tw::cli {

struct ModelOptions {
  std::string path;
  int threads = 0;  // 0: resolve_threads()
  bool exact = false;
  bool as_json = false;
};

/// Adds MODEL, --threads, --exact and --json.
void add_model_options(CLI::App& command, ModelOptions& options);

/// A model ready to run.
struct LoadedModel {
  std::unique_ptr<runtime::ThreadPool> own_pool;  // when --threads asks for another count
  runtime::Context context;
  models::GgufFile file;
  models::Tokenizer tokenizer;
  models::Decoder decoder;
  double load_seconds;
};

/// Opens and repacks the model, with progress on stderr where that is a terminal.
LoadedModel load_model(const ModelOptions& options);

/// The file's contents; "-": standard input. Throws kIo, kInvalidArgument for more bytes than
/// tokenizers take.
std::string read_text(const std::string& path);

/// Whether reading has failed, not ended: a folder opens, and fails at the first byte. std::cin
/// takes an error for the end.
bool read_failed(const std::istream& in);

/// The largest resident set of this process so far.
int64_t peak_rss_bytes();

}  // namespace tw::cli

// What the subcommands that run a model share: its options, loading it, and reading text.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/error.h"
#include "tilewright/models/chat_template/chat_template.h"
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

/// Throws kInvalidArgument, naming --tokens, unless the model has these tokens and room for them.
void check_tokens(const LoadedModel& model, const std::vector<int32_t>& tokens);

/// Calls f(first, values) for the elements of a tensor, dequantised in pieces, so that a large one
/// takes no more memory than a small one.
void for_values(const models::GgufTensor& tensor,
                const std::function<void(int64_t first, std::span<const float> values)>& f);

/// What a model is that computes NaN. Reads all its weights: names the first that is no number, if
/// one is.
Error outputs_are_no_numbers(const models::GgufFile& file);

/// A line on stderr that says how far `work` has come, where that is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(const char* work);
  ~ProgressBar();
  void operator()(double done) const;

 private:
  const char* work_;
  bool shown_;
};

/// Parses a chat template; `name` opens its messages. What it gets wrong makes its file a bad one.
models::ChatTemplate parse_template(std::string_view source, std::string name);

/// The model's own. Throws kUnsupported where it has none.
models::ChatTemplate template_of(const models::GgufFile& file);

/// The file's contents; "-": standard input. Throws kIo, kInvalidArgument for more bytes than
/// tokenizers take.
std::string read_text(const std::string& path);

/// The next line of `in`, without its end; false where there is none. Throws as read_text() does
/// for one that is longer than it may be, or that cannot be read.
bool read_line(std::istream& in, const std::string& name, std::string& line);

/// The largest resident set of this process so far.
int64_t peak_rss_bytes();

}  // namespace tw::cli

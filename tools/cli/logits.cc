// tilewright logits: the model's raw scores for every position of a token list.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/cli/arguments.h"
#include "tools/cli/commands.h"
#include "tools/cli/model_options.h"
#include "tools/cli/npy_file.h"

namespace tw::cli {
namespace {

struct LogitsOptions {
  ModelOptions model;
  std::vector<int32_t> tokens;
  std::string out;
  int64_t chunk = 512;
};

void run_logits(const LogitsOptions& options) {
  LoadedModel model = load_model(options.model);
  check_tokens(model, options.tokens);
  const auto compute = models::prompt_compute(model.context.machine(), options.model.exact);
  models::KvCache cache = model.decoder.make_cache();
  const int64_t count = int64_t(options.tokens.size());
  const int64_t vocabulary = model.decoder.config().vocabulary;
  const int64_t shape[] = {count, vocabulary};
  NpyFile file(options.out, shape, options.model.path);
  std::vector<float> logits;
  for (int64_t i = 0; i < count; i += options.chunk) {
    const int64_t size = std::min(options.chunk, count - i);
    const models::SequenceTokens part{&cache,
                                      std::span(options.tokens).subspan(size_t(i), size_t(size))};
    model.decoder.forward(model.context, {&part, 1}, compute, models::LogitRows::kAll, logits);
    if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }))
      throw outputs_are_no_numbers(model.file);
    file.write(logits);
  }
  file.close();
  if (options.model.as_json)
    std::cout << nlohmann::json{{"out", options.out}, {"shape", {count, vocabulary}}} << "\n";
}

}  // namespace

void add_logits(CLI::App& app) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* command = app.add_subcommand("logits", "Write a model's logits for given tokens");
  add_model_options(*command, options->model);
  add_numbers(*command, "--tokens", options->tokens, "Token ids, separated by commas", kTokenIds)
      ->required();
  add_number(*command, "--chunk", options->chunk,
             "Tokens per pass; the result does not depend on it", {1, int64_t{1} << 20});
  command
      ->add_option("--out", options->out, "Where to write them: float32 .npy [tokens, vocabulary]")
      ->required();
  command->footer(
      "Example: tilewright logits model.gguf --tokens 504,3575,282 --exact --out l.npy");
  command->callback([options] { run_logits(*options); });
}

}  // namespace tw::cli

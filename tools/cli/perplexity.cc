// tilewright perplexity: how well a model predicts a text.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tilewright/ops/cross_entropy.h"
#include "tilewright/runtime/launch.h"
#include "tools/cli/arguments.h"
#include "tools/cli/commands.h"
#include "tools/cli/model_options.h"

namespace tw::cli {
namespace {

struct PerplexityOptions {
  ModelOptions model;
  std::string file;
  int64_t context = 512;
};

constexpr size_t kPass = 512;  // tokens; their logits are all that is held

/// The sum of -log p(token) over the tokens that follow the first rows of logits.
double surprise(runtime::Context& context, const std::vector<float>& logits, int64_t vocabulary,
                std::span<const int32_t> next) {
  const int64_t count = int64_t(next.size());
  const std::vector<int64_t> labels(next.begin(), next.end());
  std::vector<float> losses(next.size());
  kernels::CrossEntropy<float, int64_t> kernel{};
  kernel.x = view(logits.data(), count, vocabulary);
  kernel.target = view(labels.data(), count);
  kernel.ignore_index = -1;
  kernel.reduction = int(kernels::LossReduction::kNone);
  kernel.loss = rows(losses.data(), count, 1);
  runtime::launch<ops::CrossEntropy>(context, kernel);
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

/// The same over a window of tokens, of which nothing precedes the first.
double window_surprise(LoadedModel& model, kernels::QuantizedCompute compute,
                       std::span<const int32_t> window, std::vector<float>& logits) {
  models::KvCache cache = model.decoder.make_cache();
  double total = 0;
  for (size_t at = 0; at + 1 < window.size(); at += kPass) {
    const models::SequenceTokens part{&cache,
                                      window.subspan(at, std::min(kPass, window.size() - at))};
    model.decoder.forward(model.context, {&part, 1}, compute, models::LogitRows::kAll, logits);
    const size_t scored = std::min(kPass, window.size() - 1 - at);
    total += surprise(model.context, logits, model.decoder.config().vocabulary,
                      window.subspan(at + 1, scored));
  }
  return total;
}

void run_perplexity(const PerplexityOptions& options) {
  const std::string text = read_text(options.file);  // fails before the model takes its time
  LoadedModel model = load_model(options.model);
  const auto compute = models::prompt_compute(model.context.machine(), options.model.exact);
  const std::vector<int32_t> tokens = model.tokenizer.encode(text);
  const size_t window = size_t(std::min(options.context, model.decoder.config().context_length));
  const bool shown = isatty(STDERR_FILENO) != 0;
  double total = 0;
  int64_t counted = 0;
  std::vector<float> logits;
  for (size_t start = 0; start + 1 < tokens.size(); start += window) {
    const size_t size = std::min(window, tokens.size() - start);
    total += window_surprise(model, compute, std::span(tokens).subspan(start, size), logits);
    counted += int64_t(size) - 1;
    if (!shown) continue;
    std::fprintf(stderr, "\r%zu / %zu tokens, perplexity %.4f", start + size, tokens.size(),
                 std::exp(total / double(counted)));
  }
  if (counted == 0) throw Error(ErrorKind::kInvalidArgument, "the text has fewer than two tokens");
  if (shown) std::fputc('\n', stderr);
  const double mean = total / double(counted);
  if (std::isnan(mean)) throw outputs_are_no_numbers(model.file);
  if (options.model.as_json)
    std::cout << nlohmann::json{{"perplexity", std::exp(mean)},
                                {"nats_per_token", mean},
                                {"tokens", counted},
                                {"window", window}}
              << "\n";
  else
    std::printf("%.6f\n", std::exp(mean));
}

}  // namespace

void add_perplexity(CLI::App& app) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App* command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  add_model_options(*command, options->model);
  command->add_option("FILE", options->file, "Text; - reads standard input")->required();
  add_number(*command, "--context", options->context, "Tokens per independent window",
             {2, int64_t{1} << 30});
  command->footer("Example: tilewright perplexity model.gguf book.txt --json");
  command->callback([options] { run_perplexity(*options); });
}

}  // namespace tw::cli

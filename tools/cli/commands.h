// The subcommands of the `tilewright` tool: one file, tools/cli/NAME.cc, for each.
#pragma once

namespace CLI {
class App;
}

namespace tw::cli {

// Weak, so that a build with only some of the files still links; main() adds those that exist.
[[gnu::weak]] void add_bench(CLI::App& app);
[[gnu::weak]] void add_compare(CLI::App& app);
[[gnu::weak]] void add_completion(CLI::App& app);
[[gnu::weak]] void add_cuda_compile(CLI::App& app);
[[gnu::weak]] void add_env(CLI::App& app);
[[gnu::weak]] void add_generate(CLI::App& app);
[[gnu::weak]] void add_inspect(CLI::App& app);
[[gnu::weak]] void add_logits(CLI::App& app);
[[gnu::weak]] void add_ncu_extract(CLI::App& app);
[[gnu::weak]] void add_ops(CLI::App& app);
[[gnu::weak]] void add_perplexity(CLI::App& app);
[[gnu::weak]] void add_profile(CLI::App& app);
[[gnu::weak]] void add_template(CLI::App& app);
[[gnu::weak]] void add_tokenize(CLI::App& app);

}  // namespace tw::cli

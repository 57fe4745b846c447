// The `tilewright` tool: parses the command line, runs one subcommand, and turns errors into one
// line on stderr and a documented exit code.
#include <cstdio>
#include <exception>
#include <ios>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tools/cli/commands.h"

namespace tw::cli {
namespace {

constexpr int kExitInternal = 1;
constexpr int kExitUsage = 2;
constexpr int kExitBadFile = 3;
constexpr int kExitUnsupported = 4;
constexpr int kExitOutOfMemory = 5;
constexpr int kExitIo = 6;

constexpr const char* kExitCodes =
    "Data goes to stdout, progress and errors to stderr.\n"
    "Exit codes: 0 done, 1 internal error, 2 wrong usage or argument, 3 malformed file,\n"
    "            4 unsupported, 5 out of memory, 6 input or output failed;\n"
    "            in a shell 130 after Ctrl-C.\n\n"
    "Example: tilewright generate model.gguf --chat -p \"What is a tile?\"";

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return kExitUsage;
    case ErrorKind::kUnsupported:
      return kExitUnsupported;
    case ErrorKind::kOutOfMemory:
      return kExitOutOfMemory;
    case ErrorKind::kBadFile:
      return kExitBadFile;
    case ErrorKind::kIo:
      return kExitIo;
    case ErrorKind::kInternal:
      return kExitInternal;
  }
  return kExitInternal;
}

void add_commands(CLI::App& app) {
  for (auto* add : {add_generate, add_inspect, add_template, add_tokenize, add_logits,
                    add_perplexity, add_ops, add_env, add_bench, add_compare, add_cuda_compile,
                    add_profile, add_ncu_extract, add_completion}) {
    if (add != nullptr) add(app);
  }
}

/// "tilewright generate", or "tilewright" before a subcommand was recognised.
std::string command_name(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "tilewright" : "tilewright " + chosen.front()->get_name();
}

/// Messages make what they quote printable; this catches what one forgot. The second line of some
/// is an operator's schema.
std::string without_controls(std::string message) {
  for (size_t i = 0; i < message.size(); ++i) {
    const auto c = static_cast<unsigned char>(message[i]);
    const bool is_second_line = message.compare(i, 5, "\n  in") == 0;
    if ((c < 0x20 || c == 0x7f) && !is_second_line) message[i] = '?';
  }
  return message;
}

int report(const CLI::App& app, const char* message, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", command_name(app).c_str(), without_controls(message).c_str());
  return code;
}

/// One line, whatever the arguments hold.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining();
  if (app.get_subcommands().empty() && !unknown.empty())
    return std::string("there is no ") + (unknown[0].starts_with('-') ? "option" : "subcommand") +
           " '" + printable(unknown[0], 80) + "'; see --help";
  return printable(error.what(), 400) + "; see --help";
}

int run(int argc, char** argv) {
  CLI::App app{"Tile kernels and language models on this machine.", "tilewright"};
  app.set_version_flag("--version", "tilewright " TILEWRIGHT_VERSION);
  app.require_subcommand(1);
  app.footer(kExitCodes);
  add_commands(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return report(app, usage_message(app, error).c_str(), kExitUsage);
  } catch (const Error& error) {
    return report(app, error.what(), exit_code(error.kind()));
  } catch (const std::bad_alloc&) {
    return report(app, "out of memory", kExitOutOfMemory);
  } catch (const std::ios_base::failure& error) {  // reading a directory, for one
    return report(app, error.what(), kExitIo);
  } catch (const std::exception& error) {
    return report(app, (std::string("internal error, please report: ") + error.what()).c_str(),
                  kExitInternal);
  }
}

/// A full disk shows when the last of the output is written.
int finish(int code) {
  const bool written = std::cout.flush().good() && std::fflush(stdout) == 0 && !std::ferror(stdout);
  if (written || code != 0) return code;
  std::fprintf(stderr, "tilewright: cannot write the output\n");
  return kExitIo;
}

}  // namespace
}  // namespace tw::cli

int main(int argc, char** argv) {
  return tw::cli::finish(tw::cli::run(argc, argv));
}

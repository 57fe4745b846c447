// Programs of others, run without a shell.
#pragma once

#include <string>
#include <vector>

namespace tw::cli {

/// The file of a program: in $PATH, or else in one of NVIDIA's usual folders. Throws kUnsupported,
/// naming where it was looked for and `package`, which holds it.
std::string find_program(const std::string& name, const std::string& package);

/// Runs it with our streams and waits. The exit code; 128 + N where signal N ended it. Throws kIo
/// when it cannot be started.
int run_child(const std::vector<std::string>& command);

/// The same, and what it wrote to stdout.
struct Captured {
  int exit_code = 0;
  std::string out;
};
Captured capture_child(const std::vector<std::string>& command);

}  // namespace tw::cli

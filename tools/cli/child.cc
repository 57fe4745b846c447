#include "tools/cli/child.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tilewright/core/error.h"

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

/// Starts `command`, its stdout going to `out` if that is a descriptor.
pid_t start(const std::vector<std::string>& command, int out) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (out >= 0) posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw Error(ErrorKind::kIo, command[0] + ": cannot be started: " + std::strerror(error));
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::string find_program(const std::string& name, const std::string& package) {
  std::vector<fs::path> folders;
  const char* path = std::getenv("PATH");
  std::istringstream words(path == nullptr ? "" : path);
  for (std::string folder; std::getline(words, folder, ':');) folders.emplace_back(folder);
  folders.emplace_back("/usr/local/cuda/bin");
  for (const fs::path& folder : folders)
    if (const fs::path file = folder / name; access(file.c_str(), X_OK) == 0) return file.string();
  throw Error(ErrorKind::kUnsupported,
              name + " is neither in $PATH nor in /usr/local/cuda/bin: " + package + " holds it");
}

int run_child(const std::vector<std::string>& command) {
  return wait_for(start(command, -1));
}

Captured capture_child(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorKind::kIo, std::string("cannot make a pipe: ") + std::strerror(errno));
  Captured out;
  pid_t child = 0;
  try {
    child = start(command, ends[1]);
  } catch (...) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  close(ends[1]);
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = read(ends[0], buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    out.out.append(buffer, size_t(n));
  }
  close(ends[0]);
  out.exit_code = wait_for(child);
  return out;
}

}  // namespace tw::cli

#include "tilewright/runtime/thread_count.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include <sched.h>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tilewright/runtime/thread_pool.h"

namespace tw::runtime {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool has_item(const std::string& list, std::string_view item) {
  const std::vector<std::string> items = split(list, ',');
  return std::find(items.begin(), items.end(), item) != items.end();
}

/// A control group hierarchy as mounted here: `root` is the group that `mount_point` shows.
struct Mount {
  std::string root, mount_point;
};

/// The first mount of the wanted kind in a mountinfo file (see proc(5)): v2, or the v1 hierarchy
/// with the cpu controller. Both fields empty when there is none.
Mount find_mount(const std::string& mountinfo_path, bool v2) {
  std::ifstream file(mountinfo_path);
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> front = split(line.substr(0, dash), ' ');
    const std::vector<std::string> back = split(line.substr(dash + 3), ' ');
    if (front.size() < 5 || back.size() < 3) continue;
    if (v2 ? back[0] == "cgroup2" : back[0] == "cgroup" && has_item(back[2], "cpu"))
      return {front[3], front[4]};
  }
  return {};
}

/// This process's group in a /proc/self/cgroup file; empty when it is in none of that kind.
std::string find_group(const std::string& cgroup_path, bool v2) {
  std::ifstream file(cgroup_path);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool matches =
        v2 ? line.substr(0, first) == "0" && controllers.empty() : has_item(controllers, "cpu");
    if (matches) return line.substr(second + 1);
  }
  return {};
}

/// quota / period of one group; 0 when unlimited, absent or malformed.
double quota_of(const std::string& folder, bool v2) {
  double quota = 0, period = 0;
  if (v2) {  // "max 100000" or "150000 100000"; reading "max" as a number fails
    std::ifstream file(folder + "/cpu.max");
    if (!(file >> quota >> period)) return 0;
  } else {  // a quota of -1 is no limit
    std::ifstream quota_file(folder + "/cpu.cfs_quota_us"),
        period_file(folder + "/cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return 0;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

/// The least quota of a group and its ancestors as far as they are visible; 0 when unlimited.
double hierarchy_quota(const std::string& root, bool v2) {
  const Mount mount = find_mount(root + "/proc/self/mountinfo", v2);
  if (mount.mount_point.empty()) return 0;
  std::string group = find_group(root + "/proc/self/cgroup", v2);
  // In a container the mount may show only a part of the tree that the group's path is from.
  if (mount.root != "/" && group.starts_with(mount.root)) group.erase(0, mount.root.size());
  double least = 0;
  for (;;) {
    while (group.ends_with('/')) group.pop_back();
    const double quota = quota_of(root + mount.mount_point + group, v2);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
    if (group.empty()) return least;
    const size_t slash = group.rfind('/');
    group.erase(slash == std::string::npos ? 0 : slash);
  }
}

int checked_threads(std::string_view value, const char* name) {
  int threads = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), threads);
  if (status != std::errc() || end != value.data() + value.size() || threads < 1 ||
      threads > ThreadPool::kMaxThreads) {
    throw Error(ErrorKind::kInvalidArgument, std::string(name) + " is \"" + printable(value, 80) +
                                                 "\"; it must be an integer from 1 to " +
                                                 std::to_string(ThreadPool::kMaxThreads));
  }
  return threads;
}

}  // namespace

int affinity_count() {
  // The kernel refuses masks smaller than its own; 2^16 processors are enough for any.
  for (int capacity = 1024; capacity <= 1 << 16; capacity *= 4) {
    cpu_set_t* const set = CPU_ALLOC(size_t(capacity));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(size_t(capacity));
    CPU_ZERO_S(bytes, set);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return 1;
}

double cgroup_cpu_quota(const std::string& root) {
  const double v2 = hierarchy_quota(root, true), v1 = hierarchy_quota(root, false);
  if (v1 == 0 || v2 == 0) return std::max(v1, v2);
  return std::min(v1, v2);
}

int usable_processors() {
  const int processors = affinity_count();
  const double quota = cgroup_cpu_quota();
  if (quota <= 0 || quota >= processors) return processors;
  return std::max(1, int(std::ceil(quota)));
}

ThreadCount resolve_threads(int requested) {
  if (requested != 0) return {checked_threads(std::to_string(requested), "threads"), "argument"};
  constexpr const char* kAsked = "TILEWRIGHT_NUM_THREADS";
  if (const char* value = std::getenv(kAsked); value != nullptr && *value != '\0')
    return {checked_threads(value, kAsked), kAsked};
  const int processors = affinity_count(), usable = usable_processors();
  return {std::min(usable, ThreadPool::kMaxThreads),
          usable < processors ? "cgroup cpu quota" : "affinity"};
}

}  // namespace tw::runtime

#include "tilewright/runtime/thread_count.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include "tilewright/core/error.h"

namespace tw::runtime {
namespace {

/// A folder that stands for "/" and is removed afterwards.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "tilewright-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = path_ + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Sets an environment variable for a scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~ScopedVariable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

constexpr const char* kV2Mount =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(CgroupQuota, NothingMountedMeansNoLimit) {
  EXPECT_EQ(cgroup_cpu_quota("/nonexistent-root"), 0);
  const FakeRoot root;
  root.write("/proc/self/cgroup", "0::/\n");
  root.write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/vda1 rw\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path()), 0);
}

TEST(CgroupQuota, V2TakesTheLeastOfAllAncestors) {
  const FakeRoot root;
  root.write("/proc/self/mountinfo", kV2Mount);
  root.write("/proc/self/cgroup", "0::/a/b/c\n");
  root.write("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path()), 0);
  root.write("/sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root.path()), 2.5);
  root.write("/sys/fs/cgroup/a/cpu.max", "75000 50000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root.path()), 1.5);
  root.write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root.path()), 0.5);
}

TEST(CgroupQuota, V2InsideANamespace) {
  const FakeRoot root;
  root.write("/proc/self/mountinfo", kV2Mount);
  root.write("/proc/self/cgroup", "0::/\n");
  root.write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root.path()), 4);
}

TEST(CgroupQuota, V1WithTheContainersPartOfTheTreeMounted) {
  const FakeRoot root;
  root.write("/proc/self/mountinfo",
             "40 30 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro master:12 - cgroup cgroup "
             "rw,cpu,cpuacct\n"
             "41 30 0:31 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n");
  root.write("/proc/self/cgroup", "5:cpuset:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n");
  root.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
  root.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root.write("/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "100000\n");
  root.write("/sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root.path()), 3);
  root.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpu_quota(root.path()), 0);
}

TEST(CgroupQuota, V1AndV2TogetherGiveTheLesser) {
  const FakeRoot root;
  root.write("/proc/self/mountinfo", std::string("26 25 0:23 / /v1 rw - cgroup cgroup rw,cpu\n") +
                                         "30 23 0:26 / /v2 rw - cgroup2 cgroup2 rw\n");
  root.write("/proc/self/cgroup", "1:cpu:/\n0::/\n");
  root.write("/v1/cpu.cfs_quota_us", "200000");
  root.write("/v1/cpu.cfs_period_us", "100000");
  root.write("/v2/cpu.max", "150000 100000");
  EXPECT_DOUBLE_EQ(cgroup_cpu_quota(root.path()), 1.5);
}

TEST(CgroupQuota, MalformedFilesMeanNoLimit) {
  const FakeRoot root;
  root.write("/proc/self/mountinfo", std::string("nonsense\n - \n1 2 - cgroup2\n") + kV2Mount);
  root.write("/proc/self/cgroup", "no colons\n0:\n::\n0::/x\n");
  for (const char* text : {"", "1", "abc def", "-5 100000", "100000 0", "nan nan"}) {
    root.write("/sys/fs/cgroup/x/cpu.max", text);
    EXPECT_EQ(cgroup_cpu_quota(root.path()), 0) << text;
  }
}

TEST(ResolveThreads, ArgumentBeforeEnvironmentBeforeMachine) {
  const ScopedVariable variable("TILEWRIGHT_NUM_THREADS", "5");
  EXPECT_EQ(resolve_threads(3).threads, 3);
  EXPECT_EQ(resolve_threads(3).source, "argument");
  EXPECT_EQ(resolve_threads().threads, 5);
  EXPECT_EQ(resolve_threads().source, "TILEWRIGHT_NUM_THREADS");
  const ScopedVariable unset("TILEWRIGHT_NUM_THREADS", nullptr);
  EXPECT_EQ(resolve_threads().threads, usable_processors());
}

TEST(ResolveThreads, FollowsTheAffinityMask) {
  const ScopedVariable unset("TILEWRIGHT_NUM_THREADS", nullptr);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(affinity_count(), 1);
  EXPECT_EQ(resolve_threads().threads, 1);
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(affinity_count(), CPU_COUNT(&before));
}

TEST(ResolveThreads, NonsenseIsAnErrorThatNamesTheValue) {
  for (const char* text : {"0", "-2", "two", "2x", " 2", "1025", "99999999999999999999", "1.5"}) {
    const ScopedVariable variable("TILEWRIGHT_NUM_THREADS", text);
    try {
      resolve_threads();
      FAIL() << text << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_EQ(std::string(error.what()), "TILEWRIGHT_NUM_THREADS is \"" + std::string(text) +
                                               "\"; it must be an integer from 1 to 1024");
    }
  }
  EXPECT_THROW(resolve_threads(-1), Error);
  EXPECT_THROW(resolve_threads(1025), Error);
}

}  // namespace
}  // namespace tw::runtime

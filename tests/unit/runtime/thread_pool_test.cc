#include "tilewright/runtime/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include "tilewright/core/error.h"

namespace tw::runtime {
namespace {

TEST(ThreadPool, RunsEveryTaskExactlyOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t tasks : {0, 1, 2, 7, 64, 1000, 4097}) {
      for (int64_t chunk : {0, 1, 3, 64, 10000}) {
        SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(tasks) + " tasks by " +
                     std::to_string(chunk));
        std::vector<int> hits(size_t(tasks), 0);
        pool.parallel_for(tasks, chunk, [&](int64_t begin, int64_t end, int worker) {
          ASSERT_GE(worker, 0);
          ASSERT_LT(worker, threads);
          for (int64_t i = begin; i < end; ++i) ++hits[size_t(i)];
        });
        EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), tasks);
      }
    }
  }
}

TEST(ThreadPool, ExplicitChunksAreTheSameForAnyThreadCount) {
  std::set<std::pair<int64_t, int64_t>> expected;
  for (int64_t b = 0; b < 1003; b += 17) expected.insert({b, std::min<int64_t>(b + 17, 1003)});
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::mutex mutex;
    std::set<std::pair<int64_t, int64_t>> seen;
    pool.parallel_for(1003, 17, [&](int64_t begin, int64_t end, int) {
      const std::lock_guard lock(mutex);
      seen.insert({begin, end});
    });
    EXPECT_EQ(seen, expected) << threads << " threads";
  }
}

TEST(ThreadPool, HugeTaskCountsDoNotOverflow) {
  ThreadPool pool(2);
  constexpr int64_t kTasks = INT64_MAX;
  std::atomic<int64_t> total{0};
  pool.parallel_for(kTasks, kTasks / 3, [&](int64_t begin, int64_t end, int) {
    EXPECT_LT(begin, end);
    total += end - begin;
  });
  EXPECT_EQ(total.load(), kTasks);
}

TEST(ThreadPool, EveryWorkerTakesPart) {
  ThreadPool pool(3);
  // Each body waits until all three have arrived, which only three threads can bring about.
  std::atomic<int> arrived{0};
  std::vector<std::atomic<int>> calls(3);
  pool.parallel_for(3, 1, [&](int64_t, int64_t, int worker) {
    ++calls[size_t(worker)];
    ++arrived;
    while (arrived.load() < 3) std::this_thread::yield();
  });
  for (const auto& count : calls) EXPECT_EQ(count.load(), 1);
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> arrived{0};
    pool.parallel_for(2, 1, [&](int64_t, int64_t, int) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPool, CallerSleepsThroughALongChunkAndComesBack) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> arrived{0}, done{0};
    pool.parallel_for(2, 1, [&](int64_t, int64_t, int worker) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
      if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++done;
    });
    EXPECT_EQ(done.load(), 2);
  }
}

TEST(ThreadPool, ASleepingCallerHelpsWithTheNextPhase) {
  ThreadPool pool(2);
  std::atomic<int> arrived[2] = {};
  pool.parallel_phases(
      2, [](int) { return Work(2, 1); },
      [&](int phase, int64_t, int64_t, int worker) {
        ++arrived[phase];
        while (arrived[phase].load() < 2) std::this_thread::yield();
        if (phase == 0 && worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      });
  EXPECT_EQ(arrived[1].load(), 2);
}

TEST(ThreadPool, IdleWorkersUseNoProcessorTime) {
  ThreadPool pool(4);
  std::atomic<int> ran{0};
  pool.parallel_for(4, 1, [&](int64_t, int64_t, int) { ++ran; });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto process_time = [] {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  const double before = process_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(process_time() - before, 0.05);  // one spinning worker alone would use 0.2 s
}

TEST(ThreadPool, NestedCallsRunOnTheCallingThread) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  pool.parallel_for(16, 1, [&](int64_t, int64_t, int) {
    const std::thread::id outer = std::this_thread::get_id();
    pool.parallel_for(100, 7, [&](int64_t begin, int64_t end, int worker) {
      EXPECT_EQ(worker, 0);
      EXPECT_EQ(std::this_thread::get_id(), outer);
      sum += end - begin;
    });
  });
  EXPECT_EQ(sum.load(), 1600);
}

TEST(ThreadPool, TwoPoolsMayCallEachOther) {
  ThreadPool a(2), b(2);
  std::atomic<int64_t> sum{0};
  a.parallel_for(8, 1, [&](int64_t, int64_t, int) {
    b.parallel_for(8, 1, [&](int64_t, int64_t, int) {
      a.parallel_for(8, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    });
  });
  EXPECT_EQ(sum.load(), 512);
}

TEST(ThreadPool, ConcurrentCallersEachGetTheirWorkDone) {
  ThreadPool pool(2);
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(4, 0);
  for (size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&, c] {
      for (int round = 0; round < 300; ++round) {
        std::vector<int64_t> parts(50, 0);
        pool.parallel_for(
            50, 1, [&](int64_t begin, int64_t, int) { parts[size_t(begin)] = begin + int64_t(c); });
        sums[c] += std::accumulate(parts.begin(), parts.end(), int64_t{0});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (size_t c = 0; c < sums.size(); ++c) EXPECT_EQ(sums[c], 300 * (1225 + 50 * int64_t(c)));
}

TEST(ThreadPool, FirstExceptionReachesTheCallerAndThePoolStaysUsable) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(pool.parallel_for(1000, 1,
                                   [&](int64_t begin, int64_t, int) {
                                     if (begin == 3) throw std::out_of_range("three");
                                   }),
                 std::out_of_range);
    std::atomic<int> count{0};
    pool.parallel_for(100, 1, [&](int64_t, int64_t, int) { ++count; });
    EXPECT_EQ(count.load(), 100);
  }
}

TEST(ThreadPool, AnExceptionDropsTheChunksNotYetStarted) {
  ThreadPool pool(2);
  std::atomic<bool> thrown{false};
  std::atomic<int> after{0};
  EXPECT_THROW(pool.parallel_for(2000, 1,
                                 [&](int64_t begin, int64_t, int) {
                                   if (begin == 0) {
                                     thrown = true;
                                     throw std::runtime_error("first");
                                   }
                                   while (!thrown.load()) std::this_thread::yield();
                                   std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                   ++after;
                                 }),
               std::runtime_error);
  EXPECT_LT(after.load(), 1000);
}

TEST(ThreadPool, ExceptionOfAWorkerOtherThanTheCaller) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  const auto run = [&] {
    pool.parallel_for(2, 1, [&](int64_t, int64_t, int worker) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
      if (worker == 1) throw Error(ErrorKind::kUnsupported, "from the worker");
    });
  };
  try {
    run();
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "from the worker");
  }
}

TEST(ThreadPool, PhasesSeeAllOfThePhaseBefore) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    constexpr int kPhases = 40;
    constexpr int64_t kTasks = 97;
    // Row p of the table depends on a far-away element of row p - 1, so a missing barrier shows.
    std::vector<std::vector<int64_t>> table(kPhases + 1, std::vector<int64_t>(kTasks, 0));
    std::iota(table[0].begin(), table[0].end(), 0);
    for (int round = 0; round < 20; ++round) {
      pool.parallel_phases(
          kPhases, [&](int phase) { return phase % 2 == 0 ? Work(kTasks, 5) : Work(kTasks); },
          [&](int phase, int64_t begin, int64_t end, int) {
            const std::vector<int64_t>& from = table[size_t(phase)];
            for (int64_t i = begin; i < end; ++i)
              table[size_t(phase) + 1][size_t(i)] = from[size_t(kTasks - 1 - i)] + 1 + round;
          });
      for (int64_t i = 0; i < kTasks; ++i)
        ASSERT_EQ(table[kPhases][size_t(i)], i + kPhases * (1 + round)) << threads << " threads";
    }
  }
}

TEST(ThreadPool, PhasesWithoutTasksAreSkipped) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  pool.parallel_phases(
      5, [](int phase) { return int64_t{phase % 2 == 1 ? 10 : 0}; },
      [&](int phase, int64_t begin, int64_t end, int) { sum += phase * (end - begin); });
  EXPECT_EQ(sum.load(), 40);
  pool.parallel_phases(
      3, [](int) { return int64_t{0}; }, [&](int, int64_t, int64_t, int) { sum = -1; });
  pool.parallel_phases(
      0, [](int) { return int64_t{5}; }, [&](int, int64_t, int64_t, int) { sum = -1; });
  EXPECT_EQ(sum.load(), 40);
}

TEST(ThreadPool, AnExceptionEndsThePhases) {
  ThreadPool pool(2);
  std::atomic<int> third{0};
  EXPECT_THROW(pool.parallel_phases(
                   3, [](int) { return Work(20, 1); },
                   [&](int phase, int64_t begin, int64_t, int) {
                     if (phase == 1 && begin == 7) throw std::runtime_error("phase 1");
                     if (phase == 2) ++third;
                   }),
               std::runtime_error);
  EXPECT_EQ(third.load(), 0);
  EXPECT_THROW(pool.parallel_phases(
                   2,
                   [](int phase) -> int64_t {
                     if (phase == 1) throw std::runtime_error("no tasks");
                     return 20;
                   },
                   [](int, int64_t, int64_t, int) {}),
               std::runtime_error);
}

TEST(ThreadPool, ManyTinyForks) {
  ThreadPool pool(2);
  std::vector<int64_t> cells(4, 0);
  for (int64_t round = 0; round < 20000; ++round)
    pool.parallel_for(4, 1, [&](int64_t begin, int64_t, int) { cells[size_t(begin)] += round; });
  for (int64_t cell : cells) EXPECT_EQ(cell, 20000 * 19999 / 2);
}

TEST(ThreadPool, MoreThreadsThanProcessorsStillFinish) {
  ThreadPool pool(8);
  std::vector<int64_t> cells(64, 0);
  for (int64_t round = 0; round < 2000; ++round) {
    pool.parallel_for(64, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) cells[size_t(i)] += 1;
    });
  }
  for (int64_t cell : cells) EXPECT_EQ(cell, 2000);
}

TEST(ThreadPool, PinnedWorkersWork) {
  ThreadPool pool(2, true);
  std::atomic<int> count{0};
  pool.parallel_for(100, 1, [&](int64_t, int64_t, int) { ++count; });
  EXPECT_EQ(count.load(), 100);
}

TEST(ThreadPool, MoveOnlyAndMutableBodies) {
  ThreadPool pool(1);
  int64_t calls = 0;
  const auto constant = [](int64_t, int64_t, int) {};
  pool.parallel_for(3, 1, constant);
  pool.parallel_for(3, 1,
                    [&calls, local = std::make_unique<int>(1)](int64_t, int64_t, int) mutable {
                      *local += 1;
                      calls = *local;
                    });
  EXPECT_EQ(calls, 4);
}

/// Hosts that lend threads: all at once, one after another from either end, none, one of them.
struct Lender {
  const char* name;
  void (*fork)(void*, int threads, void (*body)(void*, int), void* work);
};
const Lender kLenders[] = {
    {"at once",
     [](void*, int threads, void (*body)(void*, int), void* work) {
       std::vector<std::thread> running;
       for (int w = 1; w < threads; ++w) running.emplace_back(body, work, w);
       body(work, 0);
       for (std::thread& thread : running) thread.join();
     }},
    {"in order",
     [](void*, int threads, void (*body)(void*, int), void* work) {
       for (int w = 0; w < threads; ++w) body(work, w);
     }},
    {"last first",
     [](void*, int threads, void (*body)(void*, int), void* work) {
       for (int w = threads; w-- > 0;) body(work, w);
     }},
    {"none", [](void*, int, void (*)(void*, int), void*) {}},
    {"one", [](void*, int threads, void (*body)(void*, int), void* w) { body(w, threads - 1); }},
};

TEST(ThreadPool, WorksOnThreadsThatAHostLends) {
  for (const Lender& lender : kLenders) {
    SCOPED_TRACE(lender.name);
    for (int threads : {1, 2, 3, 8}) {
      ThreadPool pool(threads, Host{lender.fork, nullptr});
      std::vector<int> order;
      std::mutex mutex;
      pool.parallel_phases(
          3, [](int phase) { return Work(100 + phase, 1); },
          [&](int phase, int64_t begin, int64_t end, int worker) {
            ASSERT_LT(worker, threads);
            const std::lock_guard lock(mutex);
            order.insert(order.end(), size_t(end - begin), phase);
          });
      EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
      EXPECT_EQ(order.size(), size_t(303));
      const auto fail = [](int64_t, int64_t, int) { throw std::runtime_error("body"); };
      EXPECT_THROW(pool.parallel_for(100, 1, fail), std::runtime_error);
      int hits = 0;
      pool.parallel_for(1, 1, [&](int64_t, int64_t, int) { ++hits; });
      EXPECT_EQ(hits, 1);
    }
  }
}

TEST(ThreadPool, RejectsBadThreadCounts) {
  for (int threads : {0, -1, ThreadPool::kMaxThreads + 1}) {
    try {
      ThreadPool pool(threads);
      FAIL() << threads << " threads accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(std::to_string(threads)), std::string::npos);
    }
  }
}

TEST(ThreadPool, DefaultPoolIsOne) {
  EXPECT_EQ(&default_pool(), &default_pool());
  EXPECT_GE(default_pool().threads(), 1);
}

}  // namespace
}  // namespace tw::runtime

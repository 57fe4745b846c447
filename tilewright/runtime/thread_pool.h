// Fork-join over a fixed set of threads, for work that forks hundreds of times per millisecond.
//
// The caller always works, as worker 0. Chunks are claimed one by one, so a worker that the system
// took the core from delays the join by the chunk it holds and by nothing else; one that is asleep
// or late is not waited for at all. Each worker begins with its own share of the chunks, the same
// one in equal calls, whose data its caches may still hold; then it takes those of others. Idle
// workers spin for two milliseconds and then sleep. Bodies are called through a function pointer
// and a context: nothing is allocated.
//
// A pool may also run on the threads of a host program, which then has no second set of threads
// beside its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "tilewright/core/macros.h"

namespace tw::runtime {

/// Work of one phase. chunk = 0 lets the pool choose about eight chunks per thread; pass an
/// explicit chunk where the split must not depend on the number of threads.
struct Work {
  Work(int64_t task_count, int64_t chunk_size = 0)  // NOLINT: a count alone is a Work
      : tasks(task_count), chunk(chunk_size) {}
  int64_t tasks;
  int64_t chunk;
};

/// How a host program lends its threads: calls body(work, worker) for workers in [0, threads), each
/// at most once, at once or one after another and in any order, and returns when all have returned.
/// Workers it leaves out are not waited for; body does not throw.
struct Host {
  void (*fork)(void* host, int threads, void (*body)(void* work, int worker), void* work);
  void* host;
};

class TW_API ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;

  /// A pool of `threads` in 1 .. kMaxThreads, counting the caller: it starts threads - 1 workers.
  /// With `pin`, worker i keeps to the i-th processor the process may use (the caller is left
  /// alone). Throws Error{kInvalidArgument} on a bad count, {kOutOfMemory} when the system starts
  /// fewer.
  explicit ThreadPool(int threads, bool pin = false);
  /// A pool of a host's threads, 1 .. kMaxThreads; starts none.
  ThreadPool(int threads, Host host);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Calls body(begin, end, worker) until [0, tasks) is covered, each call within one chunk of
  /// [0, tasks) cut at multiples of `chunk` (0: see Work); worker is in [0, threads()) and unique
  /// among the calls that run at once for this parallel_for, and only for this one. Returns when
  /// all is done and visible to the caller. A call from inside a body, or while another thread's
  /// call is under way, runs on the calling thread alone, as worker 0. The first exception of a
  /// body is thrown here, after the bodies already started have ended; chunks not yet started are
  /// dropped.
  template <class F>
  void parallel_for(int64_t tasks, int64_t chunk, F&& body) {
    using Body = std::remove_reference_t<F>;
    Job job;
    job.run = [](const void* context, int, int64_t begin, int64_t end, int worker) {
      (*static_cast<Body*>(const_cast<void*>(context)))(begin, end, worker);
    };
    job.context = std::addressof(body);
    job.single = Work(tasks, chunk);
    dispatch(job);
  }

  /// The same for `phases` steps of work in one fork: body(phase, begin, end, worker), where all of
  /// a phase is done and visible before the next one starts. tasks_of(phase) gives an int64_t or a
  /// Work; it is called once per phase, after the phase before, on whichever thread gets there.
  template <class Count, class F>
  void parallel_phases(int phases, Count&& tasks_of, F&& body) {
    struct Context {
      std::remove_reference_t<Count>* tasks_of;
      std::remove_reference_t<F>* body;
    } context{std::addressof(tasks_of), std::addressof(body)};
    Job job;
    job.run = [](const void* c, int phase, int64_t begin, int64_t end, int worker) {
      (*static_cast<const Context*>(c)->body)(phase, begin, end, worker);
    };
    job.count = [](const void* c, int phase) {
      return Work((*static_cast<const Context*>(c)->tasks_of)(phase));
    };
    job.context = &context;
    job.phases = phases;
    dispatch(job);
  }

 private:
  struct Job {
    void (*run)(const void* context, int phase, int64_t begin, int64_t end, int worker) = nullptr;
    Work (*count)(const void* context, int phase) = nullptr;  // null: one phase, `single`
    const void* context = nullptr;
    int phases = 1;
    Work single{0};
  };

  // Written by whoever opens a phase, before `unclaimed`; read only by threads that hold a chunk,
  // without which the phase cannot end. Everything a worker needs to start is in one cache line.
  struct alignas(64) Phase {
    std::atomic<int64_t> unclaimed{0};  // chunks left; below zero after failed claims
    const Job* job = nullptr;
    int64_t tasks = 0, chunk = 1, chunks = 0;
    int64_t before = 0;  // chunks of all phases before this one
    int64_t share = 0;   // chunks of each worker; of the first `longer` one more
    int longer = 0;
    int index = 0;
  };
  static_assert(sizeof(Phase) == 64);
  // The next chunk of a worker's share, counted from the pool's first phase on: what an earlier
  // phase left there is less than the share's first chunk, and need not be cleared.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
  };
  struct alignas(64) Join {
    std::atomic<int64_t> unfinished{0};  // chunks of the phase not yet run
    std::atomic<bool> finished{true};    // the job as a whole
  };
  struct alignas(64) Parking {
    std::atomic<uint32_t> bell{0};  // the futex: changes whenever sleepers should look again
    std::atomic<int> sleepers{0};
    std::atomic<bool> caller_sleeps{false};
    std::atomic<bool> stop{false};
  };

  void check_threads() const;
  void dispatch(const Job& job);
  void work_on_thread_of_host(int worker);
  void run_on_caller(const Job& job) const;
  int64_t chunk_of(const Work& work) const;
  Work work_of(const Job& job, int phase) const;
  bool open_phase(const Job& job, int index);
  int64_t share_begin(int worker) const;
  int64_t take_chunk(int& share);
  void run_chunk(int64_t chunk, int worker) noexcept;
  void record_failure() noexcept;
  void claim_chunks(int worker, bool holds_one);
  void finish();
  bool nothing_to_claim() const;
  void wait_for_finish();
  void wait_for_work();
  template <class Condition>
  void sleep_while(Condition condition);
  void wake(int64_t count);
  void stop_workers();
  void worker_main(int worker, int processor);

  Phase phase_;
  std::unique_ptr<Share[]> shares_;  // of each worker
  Join join_;
  Parking parking_;
  alignas(64) std::atomic<bool> busy_{false};  // a caller owns phase_ and join_
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  int threads_;
  bool oversubscribed_;
  Host host_{};
  std::atomic<bool> first_chunk_taken_{false};  // on threads of a host, by whoever came first
  std::vector<std::thread> workers_;
};

/// The process-wide pool, made on first use with resolve_threads() threads and never destroyed.
TW_API ThreadPool& default_pool();

}  // namespace tw::runtime

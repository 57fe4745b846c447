#include "tilewright/runtime/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <string>
#include <system_error>
#include <utility>

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tilewright/core/checked.h"
#include "tilewright/core/error.h"
#include "tilewright/runtime/thread_count.h"

namespace tw::runtime {
namespace {

using Clock = std::chrono::steady_clock;

void pause_core() {
  __asm__ volatile("pause" ::: "memory");
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

/// Waiting in three steps: pause, then also yield the core, then (the caller of pause()) sleep.
class Backoff {
 public:
  explicit Backoff(bool oversubscribed)
      : yield_after_(oversubscribed ? std::chrono::microseconds(1) : std::chrono::microseconds(50)),
        sleep_after_(oversubscribed ? std::chrono::microseconds(100)
                                    : std::chrono::microseconds(2000)) {}

  /// Waits a moment; true when it is time to sleep.
  bool pause() {
    pause_core();
    if (++spins_ % kSpinsPerLook != 0) return false;
    const auto now = Clock::now();
    if (spins_ == kSpinsPerLook) start_ = now;
    const auto waited = now - start_;
    if (waited > sleep_after_) return true;
    if (waited > yield_after_) sched_yield();
    return false;
  }

 private:
  static constexpr uint64_t kSpinsPerLook = 64;  // 1 to 3 us: the clock costs 25 ns
  uint64_t spins_ = 0;
  Clock::time_point start_{};
  Clock::duration yield_after_, sleep_after_;
};

/// The i-th processor the process may use, or -1.
int nth_processor(int n) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return -1;
  const int count = CPU_COUNT(&set);
  if (count == 0) return -1;
  n %= count;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set) && n-- == 0) return cpu;
  }
  return -1;
}

}  // namespace

ThreadPool::ThreadPool(int threads, bool pin)
    : threads_(threads), oversubscribed_(threads > usable_processors()) {
  check_threads();
  shares_ = std::make_unique<Share[]>(size_t(threads));
  // Signals are the host program's business: none is delivered on our threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  workers_.reserve(size_t(threads - 1));
  try {
    for (int w = 1; w < threads; ++w) {
      const int processor = pin ? nth_processor(w) : -1;
      workers_.emplace_back([this, w, processor] { worker_main(w, processor); });
    }
  } catch (const std::system_error& error) {
    stop_workers();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(ErrorKind::kOutOfMemory,
                "thread pool: only " + std::to_string(workers_.size() + 1) + " of " +
                    std::to_string(threads) + " threads could be started: " + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ThreadPool::ThreadPool(int threads, Host host)
    : threads_(threads), oversubscribed_(threads > usable_processors()), host_(host) {
  check_threads();
  shares_ = std::make_unique<Share[]>(size_t(threads));
}

void ThreadPool::check_threads() const {
  if (threads_ < 1 || threads_ > kMaxThreads) {
    throw Error(ErrorKind::kInvalidArgument, "thread pool: " + std::to_string(threads_) +
                                                 " threads; must be 1 to " +
                                                 std::to_string(kMaxThreads));
  }
}

ThreadPool::~ThreadPool() {
  stop_workers();
}

void ThreadPool::stop_workers() {
  parking_.stop.store(true, std::memory_order_seq_cst);
  wake(INT_MAX);
  for (std::thread& worker : workers_) worker.join();
}

int64_t ThreadPool::chunk_of(const Work& work) const {
  if (work.chunk > 0) return work.chunk;
  return std::max<int64_t>(1, work.tasks / (int64_t{8} * threads_));
}

Work ThreadPool::work_of(const Job& job, int phase) const {
  return job.count == nullptr ? job.single : job.count(job.context, phase);
}

void ThreadPool::run_on_caller(const Job& job) const {
  for (int phase = 0; phase < job.phases; ++phase) {
    const Work work = work_of(job, phase);
    const int64_t chunk = chunk_of(work);
    for (int64_t begin = 0, end; begin < work.tasks; begin = end) {
      end = work.tasks - begin > chunk ? begin + chunk : work.tasks;
      job.run(job.context, phase, begin, end, 0);
    }
  }
}

void ThreadPool::dispatch(const Job& job) {
  const bool one_chunk = job.count == nullptr && job.single.tasks <= chunk_of(job.single);
  if (threads_ == 1 || one_chunk || busy_.exchange(true, std::memory_order_acquire)) {
    run_on_caller(job);
    return;
  }
  join_.finished.store(false, std::memory_order_relaxed);
  if (open_phase(job, 0)) {
    if (host_.fork != nullptr) {
      first_chunk_taken_.store(false, std::memory_order_relaxed);
      host_.fork(
          host_.host, threads_,
          [](void* pool, int worker) {
            static_cast<ThreadPool*>(pool)->work_on_thread_of_host(worker);
          },
          this);
      work_on_thread_of_host(0);  // what it left, should it have lent no thread
    } else {
      claim_chunks(0, true);
      wait_for_finish();
    }
  }
  std::exception_ptr failure;
  if (failed_.load(std::memory_order_relaxed)) {
    failure = std::exchange(failure_, nullptr);
    failed_.store(false, std::memory_order_relaxed);
  }
  busy_.store(false, std::memory_order_release);
  if (failure) std::rethrow_exception(failure);
}

/// Publishes the first phase from `index` on that has tasks; false when there is none. One chunk is
/// the publisher's own, the others are there to be claimed. Only one thread can be here:
/// the caller at the start, later the one that ran the last chunk of a phase.
bool ThreadPool::open_phase(const Job& job, int index) {
  try {
    for (; index < job.phases && !failed_.load(std::memory_order_relaxed); ++index) {
      const Work work = work_of(job, index);
      if (work.tasks <= 0) continue;
      phase_.job = &job;
      phase_.index = index;
      phase_.before += phase_.chunks;
      phase_.tasks = work.tasks;
      phase_.chunk = chunk_of(work);
      phase_.chunks = ceil_div(work.tasks, phase_.chunk);
      phase_.share = phase_.chunks / threads_;
      phase_.longer = int(phase_.chunks % threads_);
      const int64_t others = phase_.chunks - 1;
      join_.unfinished.store(phase_.chunks, std::memory_order_relaxed);
      if (others == 0) return true;
      // The store and the load pair with sleep_while(): one side always sees the other.
      phase_.unclaimed.store(others, std::memory_order_seq_cst);
      if (parking_.sleepers.load(std::memory_order_seq_cst) > 0) wake(others);
      return true;
    }
  } catch (...) {
    record_failure();
  }
  return false;
}

void ThreadPool::record_failure() noexcept {
  if (!failed_.exchange(true, std::memory_order_acq_rel)) failure_ = std::current_exception();
}

void ThreadPool::run_chunk(int64_t chunk, int worker) noexcept {
  if (failed_.load(std::memory_order_relaxed)) return;
  const int64_t begin = chunk * phase_.chunk;
  const int64_t end = chunk + 1 == phase_.chunks ? phase_.tasks : begin + phase_.chunk;
  try {
    phase_.job->run(phase_.job->context, phase_.index, begin, end, worker);
  } catch (...) {
    record_failure();
  }
}

/// The first of a worker's share of the phase's chunks.
int64_t ThreadPool::share_begin(int worker) const {
  return phase_.share * worker + std::min(phase_.longer, worker);
}

/// A chunk that nobody has taken, for a thread that has claimed one: from share `share` on, which
/// is then the one that it came from. There is one, since as many are claimed as there are.
int64_t ThreadPool::take_chunk(int& share) {
  for (;; share = share + 1 == threads_ ? 0 : share + 1) {
    const int64_t begin = share_begin(share), end = share_begin(share + 1);
    std::atomic<int64_t>& next = shares_[size_t(share)].next;
    int64_t found = next.load(std::memory_order_relaxed);
    for (;;) {
      const int64_t chunk = std::max(found - phase_.before, begin);
      if (chunk >= end) break;
      if (next.compare_exchange_weak(found, phase_.before + chunk + 1, std::memory_order_relaxed))
        return chunk;
    }
  }
}

bool ThreadPool::nothing_to_claim() const {
  return phase_.unclaimed.load(std::memory_order_relaxed) <= 0;
}

/// Runs chunks until none is left to claim, and opens the next phase if this thread ran the last.
/// With `holds_one`, this thread has just opened the phase and owns a chunk of it.
///
/// A successful decrement makes this thread the owner of one chunk of whatever phase is current at
/// that moment; the phase cannot end, nor its description change, before the chunk is reported.
/// So a thread that wakes up late either gets a chunk of the current phase or nothing.
void ThreadPool::claim_chunks(int worker, bool holds_one) {
  for (;; holds_one = true) {
    int64_t ran = 0;
    int share = worker;
    if (holds_one) {
      run_chunk(take_chunk(share), worker);
      ++ran;
    }
    while (!nothing_to_claim()) {
      if (phase_.unclaimed.fetch_sub(1, std::memory_order_acquire) <= 0) break;
      run_chunk(take_chunk(share), worker);
      ++ran;
    }
    if (ran == 0) return;
    if (join_.unfinished.fetch_sub(ran, std::memory_order_acq_rel) != ran) return;
    if (!open_phase(*phase_.job, phase_.index + 1)) {
      finish();
      return;
    }
  }
}

void ThreadPool::finish() {
  join_.finished.store(true, std::memory_order_seq_cst);
  if (parking_.caller_sleeps.load(std::memory_order_seq_cst)) wake(INT_MAX);
}

void ThreadPool::wait_for_finish() {
  Backoff backoff(oversubscribed_);
  while (!join_.finished.load(std::memory_order_acquire)) {
    if (!nothing_to_claim()) {
      claim_chunks(0, false);
      backoff = Backoff(oversubscribed_);
    } else if (backoff.pause()) {
      parking_.caller_sleeps.store(true, std::memory_order_seq_cst);
      sleep_while([this] {
        return phase_.unclaimed.load(std::memory_order_seq_cst) <= 0 &&
               !join_.finished.load(std::memory_order_seq_cst);
      });
      parking_.caller_sleeps.store(false, std::memory_order_relaxed);
    }
  }
}

/// Works until the job is finished, from whichever worker the host starts first. It does not sleep:
/// what it would wait for is under way in another thread.
void ThreadPool::work_on_thread_of_host(int worker) {
  if (!first_chunk_taken_.exchange(true, std::memory_order_acq_rel)) claim_chunks(worker, true);
  Backoff backoff(oversubscribed_);
  while (!join_.finished.load(std::memory_order_acquire)) {
    if (nothing_to_claim()) {
      backoff.pause();
    } else {
      claim_chunks(worker, false);
      backoff = Backoff(oversubscribed_);
    }
  }
}

void ThreadPool::wait_for_work() {
  Backoff backoff(oversubscribed_);
  while (nothing_to_claim() && !parking_.stop.load(std::memory_order_relaxed)) {
    if (!backoff.pause()) continue;
    sleep_while([this] {
      return phase_.unclaimed.load(std::memory_order_seq_cst) <= 0 &&
             !parking_.stop.load(std::memory_order_seq_cst);
    });
    backoff = Backoff(oversubscribed_);
  }
}

/// Sleeps until the next wake(), unless the condition (on what wakers write first) is false
/// already.
template <class Condition>
void ThreadPool::sleep_while(Condition condition) {
  const uint32_t ticket = parking_.bell.load(std::memory_order_seq_cst);
  parking_.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (condition()) futex_wait(parking_.bell, ticket);
  parking_.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::wake(int64_t count) {
  parking_.bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(parking_.bell, int(std::min<int64_t>(count, INT_MAX)));
}

void ThreadPool::worker_main(int worker, int processor) {
  pthread_setname_np(pthread_self(), ("tilewright-" + std::to_string(worker)).c_str());
  if (processor >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  while (!parking_.stop.load(std::memory_order_relaxed)) {
    claim_chunks(worker, false);
    wait_for_work();
  }
}

ThreadPool& default_pool() {
  // Never destroyed: work may still be running in other threads while the process exits.
  static ThreadPool* const pool = new ThreadPool(resolve_threads().threads);
  return *pool;
}

}  // namespace tw::runtime

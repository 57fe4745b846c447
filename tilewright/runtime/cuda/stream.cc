#include "tilewright/runtime/cuda/stream.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tw::runtime::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;    // CUstream_flags
constexpr int kThreadLocalCapture = 1;  // CUstreamCaptureMode
constexpr double kLoadSeconds = 0.1;    // several times as long as NVML's figures are old

}  // namespace

OwnStream::OwnStream(const Gpu& gpu) : gpu_(gpu) {
  const CurrentContext current(gpu_);
  check(driver().create_stream(&stream_, kNonBlocking), "cuda: cuStreamCreate");
}

OwnStream::~OwnStream() {
  const CurrentContext current(gpu_);
  driver().destroy_stream(stream_);
}

void OwnStream::synchronize() const {
  check(driver().synchronize_stream(stream_), "cuda: cuStreamSynchronize");
}

Recording::Recording(const OwnStream& stream, const std::function<void()>& issue)
    : stream_(stream) {
  const Driver& d = driver();
  Graph graph = nullptr;
  check(d.begin_capture(stream.get(), kThreadLocalCapture), "cuda: cuStreamBeginCapture");
  issue();
  check(d.end_capture(stream.get(), &graph), "cuda: cuStreamEndCapture");
  const Result result = d.instantiate_graph(&executable_, graph, 0);
  d.destroy_graph(graph);
  check(result, "cuda: cuGraphInstantiate");
  check(d.create_event(&begin_, 0), "cuda: cuEventCreate");
  check(d.create_event(&end_, 0), "cuda: cuEventCreate");
}

Recording::~Recording() {
  driver().destroy_executable(executable_);
  driver().destroy_event(begin_);
  driver().destroy_event(end_);
}

void Recording::replay() const {
  check(driver().launch_graph(executable_, stream_.get()), "cuda: cuGraphLaunch");
}

double Recording::timed_replay() const {
  const Driver& d = driver();
  check(d.record_event(begin_, stream_.get()), "cuda: cuEventRecord");
  replay();
  check(d.record_event(end_, stream_.get()), "cuda: cuEventRecord");
  check(d.synchronize_event(end_), "cuda: cuEventSynchronize");
  float milliseconds = 0;
  check(d.elapsed_ms(&milliseconds, begin_, end_), "cuda: cuEventElapsedTime");
  return double(milliseconds) * 1e-3;
}

std::optional<GpuState> Recording::state_under_load(double replay_seconds) const {
  const int replays = int(std::clamp(kLoadSeconds / std::max(replay_seconds, 1e-6), 1.0, 500.0));
  for (int i = 0; i < replays; ++i) replay();
  const double all = replays * replay_seconds;
  std::this_thread::sleep_for(std::chrono::duration<double>(0.6 * all));
  std::optional<GpuState> state = gpu_state(stream_.device());
  stream_.synchronize();
  return state;
}

}  // namespace tw::runtime::cuda

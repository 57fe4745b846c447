// A stream of our own, and what is recorded in it to be replayed: for measurements and tests. Calls
// go into whatever stream the caller gives.
#pragma once

#include <functional>

#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/nvml.h"

namespace tw::runtime::cuda {

class TW_API OwnStream {
 public:
  explicit OwnStream(const Gpu& gpu);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  Stream get() const { return {stream_}; }
  int device() const { return gpu_.id; }
  void synchronize() const;

 private:
  const Gpu& gpu_;
  StreamHandle stream_ = nullptr;
};

/// What `issue` launches into `stream`, as a CUDA graph.
class TW_API Recording {
 public:
  Recording(const OwnStream& stream, const std::function<void()>& issue);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  void replay() const;
  /// Replays once and waits; seconds by the GPU's clock.
  double timed_replay() const;
  /// What the GPU says of itself while replays, each of which takes so many seconds, run one after
  /// another. Waits for them.
  std::optional<GpuState> state_under_load(double replay_seconds) const;

 private:
  const OwnStream& stream_;
  GraphExec executable_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
};

}  // namespace tw::runtime::cuda

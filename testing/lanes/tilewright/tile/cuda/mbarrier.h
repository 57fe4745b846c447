// Stands in for tile/cuda/mbarrier.h.
#pragma once

#include <mutex>

#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile::cuda {

class alignas(8) Mbarrier {
 public:
  void init(int arrivals) { *this = {uint16_t(arrivals), uint16_t(arrivals << 1), 0}; }
  void arrive() { change(1, 0); }
  void arrive_expect(int bytes) { change(1, bytes); }
  void copied(int bytes) { change(0, -bytes); }
  void wait(uint32_t phase) {
    while (true) {
      {
        const std::lock_guard lock(mutex());
        if ((pending_and_phase_ & 1u) != phase) return;
      }
      std::this_thread::yield();
    }
  }

  Mbarrier() = default;

 private:
  Mbarrier(uint16_t arrivals, uint16_t pending, int32_t bytes)
      : arrivals_(arrivals), pending_and_phase_(pending), bytes_(bytes) {}
  static std::mutex& mutex() {
    static std::mutex all;
    return all;
  }
  void change(int arrived, int bytes) {
    const std::lock_guard lock(mutex());
    bytes_ += bytes;
    pending_and_phase_ = uint16_t(pending_and_phase_ - (arrived << 1));
    if (pending_and_phase_ >> 1 == 0 && bytes_ == 0)
      pending_and_phase_ = uint16_t((arrivals_ << 1) | (~pending_and_phase_ & 1));
  }

  uint16_t arrivals_;
  uint16_t pending_and_phase_;  // the phase in the last bit
  int32_t bytes_;               // to come
};
static_assert(sizeof(Mbarrier) == 8);

inline void fence_barrier_init() {}

}  // namespace tw::tile::cuda

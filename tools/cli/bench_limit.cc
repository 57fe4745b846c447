#include "tools/cli/bench_limit.h"

#include <algorithm>
#include <chrono>

namespace tw::cli {
namespace {

constexpr int64_t kIterations = 20000;  // of an arithmetic probe: tens of microseconds
constexpr int64_t kChunksPerThread = 32;
constexpr int64_t kStreamBytes = 96 << 20;  // beyond any share of a last-level cache
constexpr int64_t kStreamChunk = 2 << 20;

template <class F>
double seconds_of(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Limit LimitMeter::limit_of(const ops::Cost& cost, double written, bool from_memory,
                           DType dtype) const {
  Limit out{.amount = cost.flops, .arithmetic = tile::f32_fma_probe(machine_.isa)};
  double rate = machine_.f32_fma_gflops;
  const auto consider = [&](double other, tile::ArithmeticProbe (*probe)(Isa)) {
    if (other <= rate) return;
    rate = other;
    out.arithmetic = probe(machine_.isa);
  };
  if (cost.arithmetic == DType::kI8) {
    rate = machine_.int8_dot_gops;
    out.arithmetic = tile::int8_dot_probe(machine_.isa);
    consider(machine_.int8_tile_gops, tile::int8_tile_probe);
  } else if (dtype == DType::kBf16) {
    consider(machine_.bf16_dot_gflops, tile::bf16_dot_probe);
    consider(machine_.bf16_tile_gflops, tile::bf16_tile_probe);
  }
  if (!from_memory) return out;
  const bool reads = written < 0.1 * cost.bytes;
  const double gbs = reads ? machine_.dram_read_all_gbs : machine_.dram_copy_gbs;
  if (cost.flops / (rate * machine_.threads) > cost.bytes / gbs) return out;
  return {.of = reads ? "DRAM read" : "DRAM copy",
          .amount = cost.bytes,
          .arithmetic = {},
          .copies = !reads};
}

double LimitMeter::seconds_now(const Limit& limit) {
  return limit.amount / (limit.arithmetic.run != nullptr ? operations_per_second(limit.arithmetic)
                                                         : bytes_per_second(limit.copies));
}

double LimitMeter::operations_per_second(const tile::ArithmeticProbe& probe) {
  const int64_t chunks = kChunksPerThread * pool_.threads();
  const double seconds = seconds_of([&] {
    pool_.parallel_for(chunks, 1, [&](int64_t, int64_t, int) { probe.run(kIterations); });
  });
  return probe.ops_per_iteration * double(kIterations * chunks) / seconds;
}

double LimitMeter::bytes_per_second(bool copies) {
  if (!from_) {
    from_.emplace(pool_, kStreamBytes);
    to_.emplace(pool_, kStreamBytes);
  }
  const tile::MemoryProbe probe = tile::memory_probe(machine_.isa);
  const auto stream = [&](auto&& body) {
    return seconds_of([&] {
      pool_.parallel_for(kStreamBytes / kStreamChunk, 1, [&](int64_t begin, int64_t, int) {
        body(from_->data() + begin * kStreamChunk, to_->data() + begin * kStreamChunk);
      });
    });
  };
  const auto read = [&](std::byte* from, std::byte*) { probe.read(from, kStreamChunk); };
  const auto copy = [&](std::byte* from, std::byte* to) { probe.copy(to, from, kStreamChunk); };
  const auto around = [&](std::byte* from, std::byte* to) {
    probe.copy_around(to, from, kStreamChunk);
  };
  if (!copies) return double(kStreamBytes) / stream(read);
  return 2.0 * double(kStreamBytes) / std::min(stream(copy), stream(around));
}

}  // namespace tw::cli

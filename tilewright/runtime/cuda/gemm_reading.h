// How Hopper's matrix multiplication comes by an operand: as it lies, where TMA can read it, or
// from a copy. Plain host code.
#pragma once

#include <algorithm>

#include "tilewright/kernels/gemm_realign.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_problem.h"

namespace tw::runtime::cuda {

struct GemmGrid {
  int64_t x = 1, y = 1, z = 1;
};

constexpr int64_t gemm_blocks(int64_t n, int64_t step) {
  return (n + step - 1) / step;
}

inline void launch_gemm(Kernel kernel, const GemmGrid& grid, int threads, int shared_bytes,
                        void** arguments, Stream stream) {
  check(driver().launch_kernel(kernel, unsigned(grid.x), unsigned(grid.y), unsigned(grid.z),
                               unsigned(threads), 1, 1, unsigned(shared_bytes), stream, arguments,
                               nullptr),
        "gemm: launching");
}

/// An operand as the kernel will read it, and the copy it needs before.
template <class T>
struct GemmReading {
  static constexpr bool kMayTranspose = sizeof(T) == 2;  // wgmma reads no other elements across
  GemmOperand<const T> from;  // with the dimension that runs along memory as columns
  bool transposed = false;    // which is then not k
  bool copies = false;
  int64_t pitch = 0;

  GemmReading(const GemmOperand<const T>& operand, bool may_transpose) : from(operand) {
    if (operand.is_tma_legal()) return;
    const GemmOperand<const T> turned = operand.transposed();
    transposed = kMayTranspose && may_transpose &&
                 (turned.is_tma_legal() || (operand.column_stride != 1 && operand.row_stride == 1));
    if (transposed) from = turned;
    copies = !from.is_tma_legal();
    pitch = pitch_of(from.columns);
  }
  /// From a copy whose columns run along memory, whether TMA needs one or not.
  static GemmReading copied(const GemmOperand<const T>& operand) {
    GemmReading out;
    out.from = operand, out.copies = true, out.pitch = pitch_of(operand.columns);
    return out;
  }
  /// Whether rows lie at odd multiples of 16 bytes, which TMA reads at half its speed.
  bool is_slow() const {
    constexpr uintptr_t kSector = 32;
    const auto stride = uintptr_t(from.row_stride) * sizeof(T);
    return !copies && from.rows > 1 &&
           (reinterpret_cast<uintptr_t>(from.data) | stride) % kSector != 0;
  }
  /// Then a copy, where that takes less than it saves of a product of so many microseconds.
  void copy_where_quicker(double product_us) {
    constexpr double kSaved = 1.0 / 3;  // for each operand, half of the product at most
    if (!is_slow()) return;
    pitch = pitch_of(from.columns);
    copies = copy_us() < kSaved * product_us;
  }
  /// Predicted time of a copy.
  double copy_us() const {
    const double moved = 2 * double(sizeof(T)) * double(from.batch * from.rows * pitch);
    return kernels::gemm_policy::kLaunchUs + moved / kernels::hopper::kReadBytesPerUs;
  }
  int64_t bytes() const { return copies ? from.batch * from.rows * pitch * int64_t{sizeof(T)} : 0; }
  /// By `realign`, the kernel of elements of that size.
  void copy_to(void* memory, Kernel realign, const Gpu& on, Stream stream) {
    using Arguments = kernels::GemmRealignArguments<sizeof(T)>;
    using Element = typename Arguments::Element;
    Arguments arguments{reinterpret_cast<const Element*>(from.data),
                        static_cast<Element*>(memory),
                        from.batch,
                        from.rows,
                        from.columns,
                        from.batch_stride,
                        from.row_stride,
                        from.column_stride,
                        pitch};
    constexpr int kThreads = 256, kResident = 8;
    const int64_t chunks = from.batch * from.rows * (pitch / Arguments::kEach);
    const int64_t copying = std::min<int64_t>((chunks + kThreads - 1) / kThreads,
                                              int64_t{on.multiprocessors} * kResident * 4);
    const int64_t turning = from.batch * arguments.turned_rows() * arguments.turned_columns();
    const bool turns = arguments.turns();
    void* pointers[] = {&arguments};
    launch_gemm(realign, {.x = turns ? turning : copying}, kThreads,
                turns ? int(Arguments::Turned::kBytes) : 0, pointers, stream);
    from = {static_cast<const T*>(memory),
            from.rows,
            from.columns,
            pitch,
            1,
            from.rows * pitch,
            from.batch};
  }

 private:
  GemmReading() = default;
  static int64_t pitch_of(int64_t columns) {
    constexpr int64_t kLine = 128 / int64_t{sizeof(T)};  // a box's row is one line of L2
    return (columns + kLine - 1) / kLine * kLine;
  }
};

}  // namespace tw::runtime::cuda

#include "tilewright/c/clear.h"

#include <cstring>

#include "tilewright/runtime/cuda/device.h"

namespace tw::c {
namespace {

/// Whether the sequences that begin at these offsets, which are not validated yet, leave out rows.
bool may_leave_out(const TensorRef& offsets, int64_t rows) {
  if (offsets.dtype != DType::kI32 || offsets.rank != 1 || offsets.sizes[0] < 1) return false;
  if (offsets.device.is_cuda()) return true;
  const auto* first = static_cast<const int32_t*>(offsets.data);
  return *first != 0 || first[(offsets.sizes[0] - 1) * offsets.strides[0]] != rows;
}

void clear(const TensorRef& out, void* stream) {
  const auto bytes = static_cast<size_t>(out.count() * element_size(out.dtype));
  if (bytes == 0) return;
  if (!out.device.is_cuda()) {
    std::memset(out.data, 0, bytes);
    return;
  }
  using namespace runtime::cuda;
  const CurrentContext current(gpu(out.device.index));
  check(driver().fill_async(reinterpret_cast<DevicePointer>(out.data), 0, bytes, stream),
        "cuda: cuMemsetD8Async");
}

}  // namespace

void clear_left_out(const runtime::OperatorInfo& op, const ops::Call& call,
                    std::span<const TensorRef> outputs, void* stream) {
  if (op.sequences.empty()) return;
  const ops::Schema& schema = call.schema();
  int offsets = 0;
  while (schema[offsets].name != op.sequences) ++offsets;
  const TensorRef& rows = call[0].tensor;
  if (!call[offsets].present || rows.rank < 1) return;
  if (!may_leave_out(call[offsets].tensor, rows.sizes[0])) return;
  for (const TensorRef& out : outputs) clear(out, stream);
}

}  // namespace tw::c

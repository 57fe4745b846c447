#include "tilewright/c/tensor.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "tilewright/c/dlpack.h"

namespace tw::c {
namespace {

constexpr int32_t kCpuDevice = 1, kCudaDevice = 2;  // DLDeviceType

[[noreturn]] void fail(const ops::Call& call, const ops::Arg& arg, const std::string& rule,
                       ErrorKind kind = ErrorKind::kInvalidArgument) {
  throw Error(kind, std::string(call.schema().name()) + ": " + std::string(arg.name) + " " + rule +
                        "\n  in " + std::string(call.schema().text()));
}

/// Empty where all of it is as the interface says.
std::string broken_rule(const tw_tensor* tensor) {
  if (tensor == nullptr) return "is NULL, but a tensor is needed";
  if (tensor->device.type != kCpuDevice && tensor->device.type != kCudaDevice)
    return "is on DLPack device " + std::to_string(tensor->device.type) +
           ", but must be on the CPU (1) or a CUDA GPU (2)";
  if (tensor->rank < 0 || tensor->rank > kMaxRank)
    return "has " + std::to_string(tensor->rank) + " dimensions, but at most " +
           std::to_string(kMaxRank) + " are supported";
  if (tensor->rank > 0 && tensor->shape == nullptr)
    return "has " + std::to_string(tensor->rank) + " dimensions, but its shape is NULL";
  const auto address = reinterpret_cast<uintptr_t>(tensor->data);
  if (tensor->data != nullptr &&
      (address > std::numeric_limits<int64_t>::max() ||
       tensor->byte_offset > std::numeric_limits<int64_t>::max() - address))
    return "has a byte_offset of " + std::to_string(tensor->byte_offset) +
           ", which leads beyond 64 bits";
  return "";
}

std::string strides_text(const TensorRef& tensor) {
  return shape_to_string({tensor.strides.data(), static_cast<size_t>(tensor.rank)});
}

}  // namespace

TensorRef read_tensor(const tw_tensor* tensor, const ops::Call& call, const ops::Arg& arg) {
  if (const std::string rule = broken_rule(tensor); !rule.empty()) fail(call, arg, rule);
  TensorRef out;
  if (const std::optional<DType> dtype = from_dlpack(tensor->dtype))
    out.dtype = *dtype;
  else
    fail(call, arg, "is " + dlpack_name(tensor->dtype) + ", which no operator takes",
         ErrorKind::kUnsupported);
  if (tensor->device.type == kCudaDevice) out.device = Device::cuda(tensor->device.index);
  out.rank = tensor->rank;
  if (tensor->data != nullptr)
    out.data = static_cast<std::byte*>(tensor->data) + tensor->byte_offset;
  int64_t contiguous = 1;
  for (auto d = static_cast<size_t>(tensor->rank); d-- > 0;) {
    out.sizes[d] = tensor->shape[d];
    out.strides[d] = tensor->strides == nullptr ? contiguous : tensor->strides[d];
    if (tensor->strides == nullptr && tensor->shape[d] > 0)
      contiguous = checked_mul(contiguous, tensor->shape[d], "tensor size");
  }
  if (!out.is_addressable())
    fail(call, arg,
         "is " + out.describe() + " with strides " + strides_text(out) +
             ", which lead beyond 64 bits");
  return out;
}

}  // namespace tw::c

#include "tilewright/ops/core/packed_weight.h"

#include <algorithm>
#include <cstring>

#include "tilewright/core/checked.h"
#include "tilewright/kernels/pack_weight.h"

namespace tw::ops {
namespace {

using kernels::PanelHeader;
using kernels::PanelLayout;
constexpr int64_t kWidth = PanelLayout<float>::kWidth;
constexpr int64_t kHeaderBytes = sizeof(PanelHeader);

int64_t interleave_of(DType dtype) {
  return dtype == DType::kBf16 ? kernels::kPanelInterleave<bf16> : 1;
}

PanelHeader read_header(const uint8_t* data) {
  PanelHeader header;
  std::memcpy(&header, data, sizeof header);
  return header;
}

template <class T>
void unpack_row(const uint8_t* data, const PanelHeader& header, int64_t row, float* out) {
  const int64_t stride = PanelLayout<T>::stride(header.k);
  for (int64_t k = 0; k < header.k; ++k) {
    T value;
    const auto index = static_cast<size_t>(PanelLayout<T>::offset(row, k, stride));
    std::memcpy(&value, data + kHeaderBytes + sizeof(T) * index, sizeof(T));
    out[k] = static_cast<float>(value);
  }
}

}  // namespace

int64_t packed_weight_bytes(int64_t n, int64_t k, DType dtype) {
  const int64_t depth = round_up(k, interleave_of(dtype));
  const int64_t elements = checked_mul(round_up(n, kWidth), depth, "packed weight");
  return checked_add(checked_mul(elements, element_size(dtype), "packed weight"), kHeaderBytes,
                     "packed weight");
}

template <class T>
WeightPacker<T>::WeightPacker(const View<const T, 2>& weight, Arena* arena) : weight_(weight) {
  const int64_t n = weight.size(0), k = weight.size(1);
  const int64_t bytes = packed_weight_bytes(n, k, dtype_of<T>);
  panels_ = ceil_div(n, kWidth);
  packed_ = Tensor::empty({bytes}, DType::kU8, arena);
  const PanelHeader header = kernels::panel_header<T>(n, k, bytes);
  std::memcpy(packed_.span<uint8_t>().data(), &header, sizeof header);
}

template <class T>
void WeightPacker<T>::pack(int64_t begin, int64_t end) const {
  T* const panels = reinterpret_cast<T*>(packed_.span<uint8_t>().data() + kHeaderBytes);
  for (int64_t p = begin; p < end; ++p) kernels::pack_panel(weight_, p, panels);
}

template class WeightPacker<float>;
template class WeightPacker<f16>;
template class WeightPacker<bf16>;

PackedWeightCheck check_packed_weight(const uint8_t* data, int64_t bytes) {
  PackedWeightCheck check;
  const auto fail = [&](std::string reason) {
    check.reason = "packed weight: " + std::move(reason);
    return check;
  };
  if (bytes < kHeaderBytes)
    return fail(std::to_string(bytes) + " bytes hold no header of " + std::to_string(kHeaderBytes));
  const PanelHeader header = check.header = read_header(data);
  if (header.magic != PanelHeader::kMagic) return fail("no packed weight: its first bytes differ");
  if (header.version != PanelHeader::kVersion)
    return fail("layout version " + std::to_string(header.version) + ", expected " +
                std::to_string(PanelHeader::kVersion));
  const DType dtype = static_cast<DType>(header.dtype);
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBf16)
    return fail("dtype number " + std::to_string(header.dtype) + " is not f32, f16 or bf16");
  if (header.interleave != interleave_of(dtype) || header.panel_width != kWidth)
    return fail("panels of width " + std::to_string(header.panel_width) + " interleaved by " +
                std::to_string(header.interleave) + ", expected " + std::to_string(kWidth) +
                " and " + std::to_string(interleave_of(dtype)));
  if (header.n < 0 || header.k < 0)
    return fail("negative size [" + std::to_string(header.n) + ", " + std::to_string(header.k) +
                "]");
  try {
    const int64_t expected = packed_weight_bytes(header.n, header.k, dtype);
    if (header.total_bytes != expected || bytes != expected)
      return fail("[" + std::to_string(header.n) + ", " + std::to_string(header.k) + "] needs " +
                  std::to_string(expected) + " bytes, its header says " +
                  std::to_string(header.total_bytes) + ", there are " + std::to_string(bytes));
  } catch (const Error& e) {
    return fail(e.what());
  }
  return check;
}

void unpack_weight_row(const uint8_t* data, int64_t row, float* out) {
  const PanelHeader header = read_header(data);
  switch (static_cast<DType>(header.dtype)) {
    case DType::kF16:
      return unpack_row<f16>(data, header, row, out);
    case DType::kBf16:
      return unpack_row<bf16>(data, header, row, out);
    default:
      return unpack_row<float>(data, header, row, out);
  }
}

}  // namespace tw::ops

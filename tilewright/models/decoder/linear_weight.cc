#include "tilewright/models/decoder/linear_weight.h"

#include <cstring>

#include "tilewright/core/block_formats.h"
#include "tilewright/kernels/linear_packed.h"
#include "tilewright/kernels/linear_quantized.h"
#include "tilewright/ops/core/packed_weight.h"
#include "tilewright/ops/linear_packed.h"
#include "tilewright/ops/linear_quantized.h"
#include "tilewright/runtime/launch.h"

namespace tw::models {
namespace {

int64_t row_bytes(DType dtype, int64_t cols) {
  return cols / info(dtype).block_elements * info(dtype).block_bytes;
}

void check_matrix(const GgufFile& file, const GgufTensor& tensor, int64_t cols) {
  if (tensor.rank != 2) throw file.tensor_error(tensor.name, "a linear layer's weight is a matrix");
  if (tensor.shape()[1] != cols)
    throw file.tensor_error(tensor.name, "its rows have " + std::to_string(tensor.shape()[1]) +
                                             " elements, but " + std::to_string(cols) + " go in");
}

/// The matrix with its rows in order: the file's bytes, or a copy.
class OrderedRows {
 public:
  OrderedRows(const MatrixSource& source) : data_(source.tensor.data) {  // NOLINT
    if (source.interleaved_head == 0) return;
    const int64_t rows = source.tensor.shape()[0];
    const size_t bytes = size_t(row_bytes(source.tensor.dtype, source.tensor.shape()[1]));
    copy_.resize(size_t(rows) * bytes);
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(copy_.data() + size_t(r) * bytes,
                  source.tensor.data + size_t(source.stored_row(r)) * bytes, bytes);
    data_ = copy_.data();
  }
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_;
  std::vector<std::byte> copy_;
};

/// The float matrices of `parts` as one of float32.
Tensor widen(DType dtype, std::span<const ops::BlockRows> parts, int64_t cols,
             runtime::ThreadPool& pool) {
  int64_t rows = 0;
  for (const ops::BlockRows& part : parts) rows += part.rows;
  Tensor out = Tensor::empty({rows, cols}, DType::kF32);
  float* to = out.span<float>().data();
  for (const ops::BlockRows& part : parts) {
    const auto* from = static_cast<const std::byte*>(part.blocks);
    pool.parallel_for(part.rows, 0, [&](int64_t begin, int64_t end, int) {
      dequantize(dtype, from + begin * row_bytes(dtype, cols), to + begin * cols,
                 (end - begin) * cols);
    });
    to += part.rows * cols;
  }
  return out;
}

}  // namespace

LinearWeight LinearWeight::load(WeightLoading& loading, std::span<const MatrixSource> sources) {
  LinearWeight out;
  const GgufTensor& first = sources[0].tensor;
  out.cols_ = first.rank == 2 ? first.shape()[1] : 0;
  std::vector<OrderedRows> ordered;
  ordered.reserve(sources.size());
  std::vector<ops::BlockRows> parts;
  for (const MatrixSource& source : sources) {
    check_matrix(loading.file, source.tensor, out.cols_);
    if (source.tensor.dtype != first.dtype)
      throw loading.file.tensor_error(source.tensor.name,
                                      "its dtype is not that of " + std::string(first.name));
    const int64_t rows = source.tensor.shape()[0];
    if (source.interleaved_head > 0 && rows % source.interleaved_head != 0)
      throw loading.file.tensor_error(
          source.tensor.name, std::to_string(rows) + " rows are no whole number of heads of " +
                                  std::to_string(source.interleaved_head));
    ordered.emplace_back(source);
    parts.push_back({ordered.back().data(), rows});
    out.rows_ += rows;
  }
  out.pack(loading, first.dtype, parts, false);
  for (const MatrixSource& source : sources) loading.file.release(source.tensor);
  return out;
}

bool LinearWeight::can_gate(const GgufTensor& gate, const GgufTensor& up) {
  return gate.dtype == up.dtype && is_block(gate.dtype);
}

LinearWeight LinearWeight::load_gated(WeightLoading& loading, const GgufTensor& gate,
                                      const GgufTensor& up) {
  LinearWeight out;
  out.cols_ = gate.rank == 2 ? gate.shape()[1] : 0;
  check_matrix(loading.file, gate, out.cols_);
  check_matrix(loading.file, up, out.cols_);
  if (gate.shape()[0] != up.shape()[0])
    throw loading.file.tensor_error(up.name,
                                    "it has not as many rows as " + std::string(gate.name));
  out.rows_ = gate.shape()[0];
  const ops::BlockRows parts[] = {{gate.data, out.rows_}, {up.data, out.rows_}};
  out.pack(loading, gate.dtype, parts, true);
  loading.file.release(gate);
  loading.file.release(up);
  return out;
}

void LinearWeight::pack(WeightLoading& loading, DType dtype, std::span<const ops::BlockRows> parts,
                        bool gated) {
  const auto run = [&](const auto& packer) {
    loading.pool.parallel_for(packer.panels(), 0,
                              [&](int64_t begin, int64_t end, int) { packer.pack(begin, end); });
  };
  quantized_ = is_block(dtype);
  if (quantized_) {
    const ops::QuantizedPacker packer(dtype, parts, cols_, gated, &loading.arena);
    run(packer);
    packed_ = packer.packed().bytes;
    return;
  }
  const Tensor wide = widen(dtype, parts, cols_, loading.pool);
  const ops::WeightPacker<float> packer(view<const float>(wide.span<float>().data(), rows_, cols_),
                                        &loading.arena);
  run(packer);
  packed_ = packer.packed();
}

void LinearWeight::operator()(runtime::Context& context, const Rows<const float>& x,
                              const Rows<float>& out, kernels::QuantizedCompute compute,
                              const Extras& extras) const {
  const auto packed = view<const uint8_t>(packed_.span<uint8_t>().data(), packed_.bytes());
  if (quantized_)
    runtime::launch<ops::LinearQuantized>(
        context, kernels::LinearQuantized<float>{x, packed, extras.bias, extras.residual, 0,
                                                 int(compute), -1, out});
  else
    runtime::launch<ops::LinearPacked>(
        context, kernels::LinearPacked<float>{x, packed, extras.bias, extras.residual, 0, out});
}

void LinearWeight::gated(runtime::Context& context, const Rows<const float>& x,
                         const Rows<float>& out, kernels::QuantizedCompute compute,
                         bool gelu_tanh) const {
  using Kernel = kernels::LinearQuantized<float>;
  const auto packed = view<const uint8_t>(packed_.span<uint8_t>().data(), packed_.bytes());
  runtime::launch<ops::LinearQuantized>(
      context, Kernel{x,
                      packed,
                      {},
                      {},
                      gelu_tanh ? Kernel::kGeluTanhAndMul : Kernel::kSiluAndMul,
                      int(compute),
                      -1,
                      out});
}

void LinearWeight::read_row(int64_t row, float* out) const {
  if (quantized_) return ops::unpack_row(packed_.span<uint8_t>().data(), row, out);
  ops::unpack_weight_row(packed_.span<uint8_t>().data(), row, out);
}

}  // namespace tw::models

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

/// The file's row that holds row `row` once interleaved pairs are halves again: of a head's d rows,
/// pair i is stored as 2 i and 2 i + 1 and belongs at i and i + d / 2.
int64_t stored_row(int64_t row, int64_t head) {
  if (head == 0) return row;
  const int64_t inside = row % head, half = head / 2;
  return row - inside + inside % half * 2 + inside / half;
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
  OrderedRows(const MatrixSource& source) : data_(source.tensor->data) {  // NOLINT
    if (source.interleaved_head == 0) return;
    const int64_t rows = source.tensor->shape()[0];
    const size_t bytes = size_t(row_bytes(source.tensor->dtype, source.tensor->shape()[1]));
    copy_.resize(size_t(rows) * bytes);
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(copy_.data() + size_t(r) * bytes,
                  source.tensor->data + size_t(stored_row(r, source.interleaved_head)) * bytes,
                  bytes);
    data_ = copy_.data();
  }
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_;
  std::vector<std::byte> copy_;
};

Tensor pack_blocks(DType dtype, std::span<const ops::BlockRows> parts, int64_t cols, bool gated,
                   runtime::ThreadPool& pool) {
  const ops::QuantizedPacker packer(dtype, parts, cols, gated);
  pool.parallel_for(packer.panels(), 0,
                    [&](int64_t begin, int64_t end, int) { packer.pack(begin, end); });
  return packer.packed().bytes;
}

}  // namespace

LinearWeight LinearWeight::load(const GgufFile& file, std::span<const MatrixSource> sources,
                                runtime::ThreadPool& pool) {
  LinearWeight out;
  const GgufTensor& first = *sources[0].tensor;
  out.cols_ = first.rank == 2 ? first.shape()[1] : 0;
  std::vector<OrderedRows> ordered;
  ordered.reserve(sources.size());
  std::vector<ops::BlockRows> parts;
  for (const MatrixSource& source : sources) {
    check_matrix(file, *source.tensor, out.cols_);
    if (source.tensor->dtype != first.dtype)
      throw file.tensor_error(source.tensor->name,
                              "its dtype is not that of " + std::string(first.name));
    const int64_t rows = source.tensor->shape()[0];
    if (source.interleaved_head > 0 && rows % source.interleaved_head != 0)
      throw file.tensor_error(source.tensor->name, std::to_string(rows) +
                                                       " rows are no whole number of heads of " +
                                                       std::to_string(source.interleaved_head));
    ordered.emplace_back(source);
    parts.push_back({ordered.back().data(), rows});
    out.rows_ += rows;
  }
  out.quantized_ = is_block(first.dtype);
  if (out.quantized_) {
    out.packed_ = pack_blocks(first.dtype, parts, out.cols_, false, pool);
    return out;
  }
  Tensor dense = Tensor::empty({out.rows_, out.cols_}, DType::kF32);
  float* to = dense.span<float>().data();
  for (const ops::BlockRows& part : parts) {
    dequantize(first.dtype, part.blocks, to, part.rows * out.cols_);
    to += part.rows * out.cols_;
  }
  const ops::WeightPacker<float> packer(
      view<const float>(dense.span<float>().data(), out.rows_, out.cols_));
  pool.parallel_for(packer.panels(), 0,
                    [&](int64_t begin, int64_t end, int) { packer.pack(begin, end); });
  out.packed_ = packer.packed();
  return out;
}

bool LinearWeight::can_gate(const GgufTensor& gate, const GgufTensor& up) {
  return gate.dtype == up.dtype && is_block(gate.dtype);
}

LinearWeight LinearWeight::load_gated(const GgufFile& file, const GgufTensor& gate,
                                      const GgufTensor& up, runtime::ThreadPool& pool) {
  LinearWeight out;
  out.quantized_ = true;
  out.cols_ = gate.rank == 2 ? gate.shape()[1] : 0;
  check_matrix(file, gate, out.cols_);
  check_matrix(file, up, out.cols_);
  if (gate.shape()[0] != up.shape()[0])
    throw file.tensor_error(up.name, "it has not as many rows as " + std::string(gate.name));
  out.rows_ = gate.shape()[0];
  const ops::BlockRows parts[] = {{gate.data, out.rows_}, {up.data, out.rows_}};
  out.packed_ = pack_blocks(gate.dtype, parts, out.cols_, true, pool);
  return out;
}

void LinearWeight::operator()(runtime::Context& context, const Rows<const float>& x,
                              const Rows<float>& out, bool exact, const Extras& extras) const {
  const auto packed = view<const uint8_t>(packed_.span<uint8_t>().data(), packed_.bytes());
  if (quantized_)
    runtime::launch<ops::LinearQuantized>(
        context,
        kernels::LinearQuantized<float>{x, packed, extras.bias, extras.residual, 0, exact, out});
  else
    runtime::launch<ops::LinearPacked>(
        context, kernels::LinearPacked<float>{x, packed, extras.bias, extras.residual, 0, out});
}

void LinearWeight::gated(runtime::Context& context, const Rows<const float>& x,
                         const Rows<float>& out, bool exact, bool gelu_tanh) const {
  using Kernel = kernels::LinearQuantized<float>;
  const auto packed = view<const uint8_t>(packed_.span<uint8_t>().data(), packed_.bytes());
  runtime::launch<ops::LinearQuantized>(
      context, Kernel{x,
                      packed,
                      {},
                      {},
                      gelu_tanh ? Kernel::kGeluTanhAndMul : Kernel::kSiluAndMul,
                      exact,
                      out});
}

void LinearWeight::read_row(int64_t row, float* out) const {
  if (quantized_) return ops::unpack_row(packed_.span<uint8_t>().data(), row, out);
  ops::unpack_weight_row(packed_.span<uint8_t>().data(), row, out);
}

}  // namespace tw::models

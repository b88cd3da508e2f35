// Operators whose results are no dense tensors: a trace cannot hold them.
#include "ops/catalogue/families.h"

namespace fulgurite::catalogue_families {
namespace {

void give_sparse(const c10::OperatorHandle&, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "its result is a sparse tensor");
}
void give_opaque(const c10::OperatorHandle&, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "its result is a tensor of oneDNN's own layout");
}
void give_quantized(const c10::OperatorHandle&, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "its result is a quantized tensor");
}

template <c10::BoxedKernel::BoxedKernelFunction* f>
constexpr MetaRule refusal{[] { return c10::KernelFunction::makeFromBoxedFunction<f>(); }, nullptr};

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "_to_sparse", .doc = "in a sparse layout", .meta = refusal<&give_sparse>},
    {.op = "_to_sparse.sparse_dim", .doc = "in a sparse layout", .meta = refusal<&give_sparse>},
    {.op = "_to_sparse_csr", .doc = "as compressed rows", .meta = refusal<&give_sparse>},
    {.op = "_to_sparse_csc", .doc = "as compressed columns", .meta = refusal<&give_sparse>},
    {.op = "_to_sparse_bsr", .doc = "as compressed blocks", .meta = refusal<&give_sparse>},
    {.op = "_to_sparse_bsc", .doc = "as compressed blocks", .meta = refusal<&give_sparse>},
    {.op = "to_mkldnn", .doc = "in oneDNN's layout", .meta = refusal<&give_opaque>},
    {.op = "quantize_per_channel",
     .doc = "as integers with a scale per channel",
     .meta = refusal<&give_quantized>},
}));

}  // namespace

constinit const std::span<const OpRecord> layouts = records;

}  // namespace fulgurite::catalogue_families

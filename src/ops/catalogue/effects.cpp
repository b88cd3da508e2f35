// Writes, reads and effects that schemas and tags do not tell.
#include "ops/catalogue/families.h"

namespace fulgurite::catalogue_families {
namespace {

constexpr auto records = checked(std::to_array<OpRecord>({
    // Changes of metadata not tagged inplace_view.
    {.op = "requires_grad_", .doc = "switches gradients on or off", .changes_metadata = true},
    {.op = "set_data", .doc = "gives a tensor another's contents", .changes_metadata = true},
    {.op = "_resize_output_", .doc = "resize_ as out= arguments do", .changes_metadata = true},

    // Data that Python or a shape depends on, without a tag.
    {.op = "is_nonzero", .doc = "the truth of a one-element tensor", .reads_data = true},
    {.op = "nonzero_numpy", .doc = "nonzero, one tensor a dimension", .reads_data = true},
    {.op = "prims::item", .doc = "the one element as a number", .reads_data = true},
    {.op = "tensor_split.tensor_indices_or_sections",
     .doc = "splits at places given by a tensor",
     .reads_data = true},
    {.op = "repeat_interleave.self_Tensor",
     .doc = "repeats each slice as often as a tensor says",
     .reads_data = true},
    {.op = "_choose_qparams_per_tensor", .doc = "scale and zero point", .reads_data = true},
    {.op = "_use_cudnn_ctc_loss.Tensor",
     .doc = "whether cuDNN can compute this loss",
     .reads_data = true},
    {.op = "_use_miopen_ctc_loss.Tensor",
     .doc = "whether MIOpen can compute this loss",
     .reads_data = true},
    {.op = "_nested_tensor_from_mask_left_aligned",
     .doc = "whether a mask is a nested tensor's",
     .reads_data = true},

    // Checks.
    {.op = "_assert_async", .doc = "raises if an element is 0", .meta = no_results},
    {.op = "_assert_async.msg", .doc = "raises if an element is 0", .meta = no_results},
    {.op = "sym_constrain_range", .doc = "bounds a number", .meta = no_results},
    {.op = "sym_constrain_range_for_size", .doc = "bounds a size", .meta = no_results},

    // Checks that give a token, to be ordered by.
    {.op = "_functional_assert_async.msg", .doc = "raises if an element is 0", .effect = true},
    {.op = "_functional_assert_scalar", .doc = "raises if a number is 0", .effect = true},
    {.op = "_functional_sym_constrain_range", .doc = "bounds a number", .effect = true},
    {.op = "_functional_sym_constrain_range_for_size", .doc = "bounds a size", .effect = true},
}));

}  // namespace

constinit const std::span<const OpRecord> effects = records;

}  // namespace fulgurite::catalogue_families

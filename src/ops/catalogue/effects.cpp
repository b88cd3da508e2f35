// Writes, reads and effects that schemas and tags do not tell.
#include "ops/catalogue/families.h"

namespace fulgurite::catalogue_families {
namespace {

constexpr HiddenWrites running(const char* flag) { return {{"running_mean", "running_var"}, flag}; }

constexpr auto records = checked(std::to_array<OpRecord>({
    // Running statistics.
    {.op = "batch_norm",
     .doc = "normalises each channel over the batch",
     .hidden_writes = running("training")},
    {.op = "native_batch_norm",
     .doc = "normalises each channel over the batch; also gives the saved statistics",
     .hidden_writes = running("training"),
     .functional = "aten::_native_batch_norm_legit_functional"},
    {.op = "native_batch_norm.out",
     .doc = "native_batch_norm into given tensors",
     .hidden_writes = running("training")},
    {.op = "cudnn_batch_norm",
     .doc = "native_batch_norm by cuDNN",
     .hidden_writes = running("training")},
    {.op = "cudnn_batch_norm.out",
     .doc = "cudnn_batch_norm into given tensors",
     .hidden_writes = running("training")},
    {.op = "miopen_batch_norm",
     .doc = "native_batch_norm by MIOpen",
     .hidden_writes = running("training")},
    {.op = "miopen_batch_norm.out",
     .doc = "miopen_batch_norm into given tensors",
     .hidden_writes = running("training")},
    {.op = "_batch_norm_impl_index",
     .doc = "batch_norm by the best backend, and which one that was",
     .hidden_writes = running("training")},
    {.op = "batch_norm_update_stats",
     .doc = "mean and variance of each channel, merged into the running ones",
     .hidden_writes = running("")},
    {.op = "batch_norm_update_stats.out",
     .doc = "batch_norm_update_stats into given tensors",
     .hidden_writes = running("")},
    {.op = "batch_norm_gather_stats",
     .doc = "merges statistics of several devices, also into the running ones",
     .hidden_writes = running("")},
    {.op = "batch_norm_gather_stats.out",
     .doc = "batch_norm_gather_stats into given tensors",
     .hidden_writes = running("")},
    {.op = "batch_norm_gather_stats_with_counts",
     .doc = "batch_norm_gather_stats with a batch size per device",
     .hidden_writes = running("")},
    {.op = "batch_norm_gather_stats_with_counts.out",
     .doc = "batch_norm_gather_stats_with_counts into given tensors",
     .hidden_writes = running("")},
    {.op = "instance_norm",
     .doc = "normalises each channel of each sample",
     .hidden_writes = running("use_input_stats")},

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

    // Tagged dynamic_output_shape for some of their uses only.
    {.op = "index.Tensor", .doc = "gathers by index tensors or masks", .fixed_shape = true},
    {.op = "_ctc_loss", .doc = "connectionist temporal classification", .fixed_shape = true},

    // Checks that give a token, to be ordered by.
    {.op = "_functional_assert_async.msg", .doc = "raises if an element is 0", .effect = true},
    {.op = "_functional_assert_scalar", .doc = "raises if a number is 0", .effect = true},
    {.op = "_functional_sym_constrain_range", .doc = "bounds a number", .effect = true},
    {.op = "_functional_sym_constrain_range_for_size", .doc = "bounds a size", .effect = true},
}));

}  // namespace

constinit const std::span<const OpRecord> effects = records;

}  // namespace fulgurite::catalogue_families

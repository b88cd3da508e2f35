// Steps of optimizers and gradient scalers: all results are arguments.
#include "ops/catalogue/families.h"

namespace fulgurite::catalogue_families {
namespace {

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "_fused_adam_", .doc = "a step of Adam", .meta = no_results},
    {.op = "_fused_adamw_", .doc = "a step of AdamW", .meta = no_results},
    {.op = "_fused_sgd_", .doc = "a step of SGD", .meta = no_results},
    {.op = "_fused_adagrad_", .doc = "a step of Adagrad", .meta = no_results},
    {.op = "_amp_foreach_non_finite_check_and_unscale_",
     .doc = "unscales gradients, notes infinities",
     .meta = no_results},
}));

}  // namespace

constinit const std::span<const OpRecord> optimizers = records;

}  // namespace fulgurite::catalogue_families

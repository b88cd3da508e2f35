// Views of all kinds, and other operators that only move elements.
#include "ops/catalogue/element_rules.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/move_rules.h"

namespace fulgurite::catalogue_families {
namespace {

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "alias", .doc = "the same", .move = {&rules::same_place}},
    {.op = "detach", .doc = "the same, without a gradient", .move = {&rules::same_place}},
    {.op = "view", .doc = "of other sizes", .move = {&reshaped}},
    {.op = "_reshape_alias", .doc = "of other sizes", .move = {&reshaped}},
    {.op = "permute", .doc = "dimensions in another order", .move = {&rules::permuted}},
    {.op = "transpose.int", .doc = "two dimensions exchanged", .move = {&rules::transposed}},
    {.op = "t", .doc = "the transpose of a matrix", .move = {&rules::matrix_transposed}},
    {.op = "unsqueeze", .doc = "with a dimension of size 1", .move = {&rules::unsqueezed}},
    {.op = "squeeze", .doc = "without dimensions of size 1", .move = {&reshaped}},
    {.op = "squeeze.dim", .doc = "without a dimension of size 1", .move = {&reshaped}},
    {.op = "squeeze.dims", .doc = "without dimensions of size 1", .move = {&reshaped}},
    {.op = "expand", .doc = "repeated without a copy", .move = {&rules::expanded}},
    {.op = "select.int", .doc = "one index of a dimension", .move = {&rules::selected}},
    {.op = "slice.Tensor", .doc = "a range of a dimension", .move = {&rules::sliced}},
    {.op = "split.Tensor", .doc = "parts of one size", .move = {&rules::split_part}},
    {.op = "split_with_sizes", .doc = "parts of given sizes", .move = {&rules::sized_part}},
    {.op = "unsafe_split.Tensor", .doc = "parts of one size", .move = {&rules::split_part}},
    {.op = "unsafe_split_with_sizes", .doc = "parts of given sizes", .move = {&rules::sized_part}},
    {.op = "diagonal", .doc = "the diagonal of two dimensions", .move = {&rules::on_diagonal}},
    {.op = "unfold", .doc = "windows along a dimension", .move = {&rules::in_window}},
    {.op = "unbind.int", .doc = "all indices of a dimension", .move = {&rules::unbound}},

    {.op = "cat", .doc = "joins along a dimension", .element = {&rules::joined}},
    {.op = "constant_pad_nd", .doc = "a number around it", .element = {&rules::padded}},
    {.op = "reflection_pad1d", .doc = "its mirror around it", .element = {&rules::reflected}},
    {.op = "reflection_pad3d", .doc = "its mirror around it", .element = {&rules::reflected}},
    {.op = "replication_pad1d", .doc = "its border around it", .element = {&rules::replicated}},
    {.op = "replication_pad2d", .doc = "its border around it", .element = {&rules::replicated}},
    {.op = "replication_pad3d", .doc = "its border around it", .element = {&rules::replicated}},
    {.op = "tril",
     .doc = "zeros above a diagonal",
     .element = {&rules::lower_triangle},
     .aten_each = 0.3},
    {.op = "triu",
     .doc = "zeros below a diagonal",
     .element = {&rules::upper_triangle},
     .aten_each = 0.3},
}));

}  // namespace

constinit const std::span<const OpRecord> moves = records;

}  // namespace fulgurite::catalogue_families

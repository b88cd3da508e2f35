// Where an element of a result is in the argument.
#pragma once

#include "ops/move_rule.h"

namespace fulgurite::catalogue_families::rules {

Place same_place(const MoveCall& call, const Place& place);
Place permuted(const MoveCall& call, const Place& place);
Place transposed(const MoveCall& call, const Place& place);
Place matrix_transposed(const MoveCall& call, const Place& place);
Place unsqueezed(const MoveCall& call, const Place& place);
Place expanded(const MoveCall& call, const Place& place);
Place selected(const MoveCall& call, const Place& place);
Place sliced(const MoveCall& call, const Place& place);
Place split_part(const MoveCall& call, const Place& place);
Place sized_part(const MoveCall& call, const Place& place);
Place unbound(const MoveCall& call, const Place& place);
Place repeated(const MoveCall& call, const Place& place);
Place narrowed(const MoveCall& call, const Place& place);
Place on_diagonal(const MoveCall& call, const Place& place);
Place in_window(const MoveCall& call, const Place& place);
Place flipped(const MoveCall& call, const Place& place);

}  // namespace fulgurite::catalogue_families::rules

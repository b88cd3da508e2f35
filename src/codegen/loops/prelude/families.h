// The families of the prelude, one file each.
#pragma once

#include <span>

#include "codegen/loops/prelude/prelude.h"

namespace fulgurite::prelude {

extern const std::span<const PreludePiece> exponentials, logarithms, trigonometry, error_functions,
    memory, guarded_reads, narrow_floats;

}  // namespace fulgurite::prelude

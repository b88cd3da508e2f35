// What a program returns, as Python text.
#pragma once

#include <string>

#include "ir/names.h"
#include "ir/trace.h"

namespace fulgurite {

// "t2, t5"; "{'logits': t4}  # CausalLMOutput" where the tree holds objects, which are returned as
// dicts.
std::string tree_text(const Trace& trace, const Names& names);

// The same with numbers in place of the tensors, for comparisons: an object equals its dict.
std::string tree_outline(const OutputTree& tree);

}  // namespace fulgurite

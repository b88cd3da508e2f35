// The structure of what the user's function returned, around the tensors in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fulgurite {

struct OutputTree {
  enum class Kind : uint8_t {
    Leaf,      // a tensor: `leaf` is its index in Trace::outputs
    Constant,  // a Python value, printed as `text`: a literal, or "...  # Type" without one
    Tuple,
    List,
    Dict,    // `keys` are Python text, printed as they stand
    Object,  // any other container (a dataclass, a ModelOutput): `text` names its type, `keys`
             // its fields; printed as a dict, as a tuple without keys, with that name in a comment
  };

  Kind kind = Kind::Tuple;
  int32_t leaf = -1;
  std::string text;
  std::vector<std::string> keys;
  std::vector<OutputTree> children;
};

// The tree of a function that returns `n` tensors: one leaf, or a tuple of them.
OutputTree flat_tree(int32_t n);

}  // namespace fulgurite

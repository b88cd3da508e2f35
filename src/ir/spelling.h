// How a call of an ATen operator is written in Python.
//
// torch.ops.aten.add.Tensor(a, b) is that call by construction. torch.add(a, b) is chosen by
// Python's argument parser, and is used only where it is known to choose the same overload with the
// same arguments: spelling_table.inc, made by scripts/generate_spelling.py, says where.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// What Python's parser may tell apart.
enum class ArgKind : char {
  Contiguous = 't',  // a tensor
  Strided = 's',     // a tensor that is not contiguous
  Retyped = 'r',     // a tensor that is sometimes one and sometimes the other
  Number = 'n',      // a Python number for a Tensor
  Int = 'i',         // for a Scalar
  Float = 'f',
  Bool = 'b',
  Complex = 'c',
  None = 'o',
  Empty = 'e',  // a list
  Other = 'v',  // a value of any other type, a list with elements
};

struct OpSpelling {
  struct Argument {
    std::string_view kinds;  // that `path` may be given
    bool optional = false;   // `path` may go without, if it has the schema's default
  };

  std::string_view path;            // "torch.add"; ".add_" for a method; "" where there is none
  std::vector<Argument> arguments;  // one per schema argument; empty where nothing is known
  std::string ops;                  // "torch.ops.aten.add.Tensor"

  // Without a path, whether torch.ops takes a number: it takes all else.
  bool accepts(size_t i, ArgKind kind) const;
};

OpSpelling spelling_of(const c10::OperatorHandle& op);

}  // namespace fulgurite

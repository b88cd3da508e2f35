// Where the packages are that are treated in a way of their own.
#pragma once

#include <Python.h>

#include <string>
#include <string_view>

namespace fulgurite::pystate {

// Directories end with a separator; empty where the package cannot be found.
struct Packages {
  std::string torch, torch_nn, own;
  std::string library;  // Python's own
};
const Packages& packages();

// The file of a code object, in UTF-8; valid while the code object lives.
std::string_view file_of(PyCodeObject* code);

// Code of deepcopy(): it asks which objects are the same for nothing but to copy each once.
bool is_of_deepcopy(PyCodeObject* code);

inline bool is_in(std::string_view file, const std::string& directory) {
  return !directory.empty() && file.starts_with(directory);
}

}  // namespace fulgurite::pystate

// Single calls as lines of a program.
#pragma once

#include <map>
#include <string>
#include <unordered_set>

#include "ir/names.h"
#include "ir/spelling.h"
#include "ir/trace.h"

namespace fulgurite {

// Spells the calls of one trace, which must outlive it and stay as it is.
class CallText {
 public:
  // `explicit_calls`: every call as torch.ops, with all its arguments.
  explicit CallText(const Trace& trace, bool explicit_calls = false);

  // Appends "t3 = torch.add(a, b)". What is to be said in a comment comes back, "" mostly: a
  // constant that Python has no literal for.
  std::string append(std::string& out, const Call& call);

  const Names& names() const { return names_; }

 private:
  // How one call is written.
  struct Form {
    const OpSpelling& spelling;
    bool pretty;        // by `spelling.path`, or by torch.ops
    size_t positional;  // how many leading arguments are written
  };

  const OpSpelling& spelling(const c10::OperatorHandle& op);
  Form form_of(const Call& call);
  bool is_written(const Call& call, const Form& form, size_t i) const;
  bool is_certain(const Call& call, const Form& form) const;
  ArgKind kind_of(const Arg& arg, const c10::Argument& schema) const;
  std::string append_arg(std::string& out, const Arg& arg, const c10::Argument& schema) const;
  std::string append_aten(std::string& out, const Call& call);
  void append_number(std::string& out, const Call& call) const;
  void append_region(std::string& out, const Call& call) const;
  void append_custom_arguments(std::string& out, const Call& call) const;

  const Trace& trace_;
  bool explicit_calls_;
  Names names_;
  std::unordered_set<ValueId> retyped_;
  std::unordered_set<ValueId> numbers_;  // Python floats
  std::map<std::pair<std::string_view, std::string_view>, OpSpelling> spellings_;
};

// What is on the left of a call: "t3 = ", "t3, [t4, t5] = "; "" where nothing new is made.
void append_results(std::string& out, const Call& call, const Names& names);

// The tensors among the arguments, each once, in order.
std::vector<ValueId> tensor_arguments(const Call& call);

}  // namespace fulgurite

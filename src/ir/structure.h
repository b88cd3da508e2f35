// What calls are but for the numbers of their values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// Writes calls as bytes, equal for calls that do the same with tensors of the same types, whatever
// the tensors and their memory are called: operators, constants, types, which values are the same,
// which share memory, bodies. Where calls come from, who runs them and what they free is left out.
// Bytes are comparable as long as no operator is unregistered.
class Structure {
 public:
  // Nothing for calls with constants other than numbers, strings, lists of them, dtypes, devices.
  std::optional<std::string> of(const Trace& trace, std::span<const Call* const> calls,
                                c10::ArrayRef<ValueId> inputs = {},
                                c10::ArrayRef<ValueId> outputs = {});

 private:
  // Numbers in the order in which they are first met.
  struct Numbering {
    std::vector<int32_t> numbers, met;
    std::pair<int32_t, bool> of(int32_t id);  // and whether it is new
    void forget();
  };

  void add(const Trace& trace, const Call& call);
  void add(const Trace& trace, const std::vector<Arg>& args);
  void add(const Trace& trace, ValueId id);
  void add(const TensorType& type);
  void add(const c10::IValue& constant);
  void add(int64_t word);

  Numbering values_, storages_;
  std::string bytes_;
  bool complete_ = true;
};

}  // namespace fulgurite

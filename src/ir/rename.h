// Other numbers for values, everywhere in a call.
#pragma once

#include <vector>

#include "ir/trace.h"

namespace fulgurite {

class Renaming {
 public:
  explicit Renaming(size_t values) : to_(values, kNoValue) {}

  void set(ValueId from, ValueId to);
  ValueId of(ValueId id) const;

  void apply(Call& call) const;  // its body and its gradient, too
  void apply(std::vector<Arg>& args) const;
  void apply(std::vector<ValueId>& ids) const;

 private:
  std::shared_ptr<const CustomGradient> renamed(CustomGradient gradient) const;

  std::vector<ValueId> to_;
  bool any_ = false;
};

}  // namespace fulgurite

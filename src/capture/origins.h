// Where recorded calls come from when it is a trace that is run again, rather than a program.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include <ATen/ATen.h>

#include "ir/trace.h"

namespace fulgurite {

// From construction to destruction, calls recorded on this thread belong to calls of another trace.
// The program's language is not asked for lines meanwhile.
class Origins {
 public:
  // `current()`: the call of the other trace that is being run; null: none. `in_language`: it is
  // run by a program of that language, which is to get errors in their form there.
  explicit Origins(std::function<const Call*()> current, bool in_language = false);
  ~Origins();
  Origins(const Origins&) = delete;

  // For capture: a number for Call::source, -1 where there is no origin.
  int32_t note();
  // From now on calls are recorded after the mark.
  void mark();
  bool is_after_mark(const Call& recorded) const { return mark_ >= 0 && recorded.source > mark_; }
  // Of a call as it was recorded.
  const Call* of(const Call& recorded) const;

  bool in_language() const { return in_language_; }

  static Origins* active();

 private:
  std::function<const Call*()> current_;
  const bool in_language_;
  std::vector<const Call*> noted_;
  int32_t mark_ = -1;
  Origins* outer_;
};

// A trace that was made by running `old` again, as one that takes its place: lines, modules and
// executors of its calls are those of their origins, and its values have numbers of their own but
// for those that stand for one of `old`.
class Successor {
 public:
  explicit Successor(const Trace& old) : old_(old) {}

  // `tensor`, of the new trace, is the value `id` of the old one.
  void stands_for(ValueId id, const at::Tensor& tensor);
  Trace of(Trace made, const Origins& origins) const;

 private:
  void renumber(Trace& made) const;

  const Trace& old_;
  std::unordered_map<ValueId, ValueId> numbers_;  // of the new trace -> of the old one
};

}  // namespace fulgurite

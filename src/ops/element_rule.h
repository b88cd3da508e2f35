// Rules of operators that say of each element of a result where it comes from: from its own place
// (arange), from other places of several arguments (cat), or from where an index tensor says.
#pragma once

#include <functional>
#include <span>

#include "ir/trace.h"
#include "ops/place.h"

namespace fulgurite {

// A tensor among the arguments of a call.
struct ElementSource {
  ValueId id = kNoValue;
  const TensorType* type = nullptr;

  const Dims& sizes() const { return type->sizes; }
};

struct ElementCall {
  ScalarGraph* graph = nullptr;
  const Dims* loops = nullptr;         // sizes of the loops that terms refer to
  const TensorType* result = nullptr;  // of which an element is asked for
  int32_t which = 0;                   // of the results
  const Trace* trace = nullptr;
  std::span<const Arg> args;
  // An element of a source, in the dtype in which it is computed.
  std::function<Scalar(const ElementSource&, const Place&)> read;
  // The same as it is in memory, or would be: of a narrow float, rounded to it.
  std::function<Scalar(const ElementSource&, const Place&)> stored;
  // What is read where a condition holds; nothing is read elsewhere, and the element is any. Throws
  // Unsupported where it takes long to compute: that is done everywhere.
  std::function<Scalar(Scalar, const std::function<Scalar()>&)> where;

  // Throw Unsupported where the argument is none.
  ElementSource tensor(size_t i) const;
  std::vector<ElementSource> tensors(size_t i) const;  // null types for None

  const c10::IValue& constant(size_t i) const { return args[i].constant; }
  int64_t number(size_t i) const { return constant(i).toInt(); }
  // An argument that is a dimension of a tensor of so many.
  size_t dim(size_t i, size_t rank) const;
  IndexTerm fixed(int64_t value) const { return constant_index(value, loops->size()); }
  Scalar index(const IndexTerm& term) const { return to_statement(*graph, term); }
  Scalar given(int64_t value) const { return fulgurite::given(*graph, value); }

  // As the result has it in memory.
  Scalar value(const c10::Scalar& number) const;
  Scalar element(const ElementSource& source, const Place& place) const;
};

// The element at a place of the result. Throws Unsupported where there is none to be said, and
// SplitLoop where there would be with more loops.
struct ElementRule {
  Scalar (*run)(const ElementCall&, const Place&) = nullptr;
  explicit operator bool() const { return run; }
};

}  // namespace fulgurite

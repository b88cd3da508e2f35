// The trace: a straight-line program over ATen operators, the one data structure of the compiler.
//
// A trace is plain data: passes take one and return another. It holds no tensors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "ir/output_tree.h"
#include "ir/types.h"

namespace fulgurite {

enum class GradMode : uint8_t { NoGrad, Grad, Inference };

struct Value {
  TensorType type;
  std::string name;  // "" prints as t<number>
};

// One argument or result of a call. Tensors are named by number, never held: autograd checks for
// unique ownership. A number that was wrapped as a 0-dim tensor for the sake of a signature such
// as add.Tensor is a constant (an IValue that holds the wrapped tensor).
struct Arg {
  enum class Kind : uint8_t { Constant, Value, ValueList };

  Kind kind = Kind::Constant;
  bool optional_elements = false;       // ValueList: of Tensor? rather than Tensor
  c10::SmallVector<ValueId, 2> values;  // Value: one; ValueList: any; kNoValue for None
  c10::IValue constant;                 // Constant

  static Arg of(ValueId id);
  static Arg list(c10::ArrayRef<ValueId> ids, bool optional_elements = false);
  static Arg literal(c10::IValue constant);
};

// What a call invokes: an ATen operator, or a region named by whoever made it (a fusion, a custom
// autograd function) whose meaning is the call's body.
struct Op {
  std::optional<c10::OperatorHandle> aten;
  std::string region;

  Op() = default;
  Op(c10::OperatorHandle handle) : aten(std::move(handle)) {}  // NOLINT: a handle is an op
  static Op named(std::string region);

  // "aten::add.Tensor", or the region's name.
  std::string name() const;
  bool operator==(const Op& other) const;
};

// A value whose sizes, strides or storage a call changed in place: t_(), resize_(), set_().
struct Retyped {
  ValueId id = kNoValue;
  TensorType type;
};

struct CustomGradient;

struct Call {
  Op op;
  std::vector<Arg> args;     // one per schema argument, defaults written out
  std::vector<Arg> results;  // one per schema return
  // The calls below autograd that this one made; opaque to passes. A value made in a body is used
  // nowhere else: capture opens a call (puts its body in its place) whose inner values escape.
  std::vector<Call> body;
  std::vector<Retyped> retyped;
  std::vector<ValueId> frees;  // not used after this call; printed as `del`
  GradMode mode = GradMode::NoGrad;
  int32_t source = -1;   // index into Trace::sources
  int32_t module = -1;   // index into Trace::modules
  std::string executor;  // who runs it, once placed; "" before
  // Of a region that is a torch.autograd.Function: its forward is the body.
  std::shared_ptr<const CustomGradient> gradient;
};

// The backward of a torch.autograd.Function, as captured. It uses its call's arguments and results
// and what the body makes; what it makes itself is used nowhere else.
struct CustomGradient {
  // What runs for one pattern of gradients that arrive.
  struct Case {
    std::vector<bool> given;         // by result of the call: a tensor, or None
    std::vector<ValueId> gradients;  // by result of the call; kNoValue where not used
    std::vector<Call> calls;         // whatever the layout of the gradients
    std::vector<ValueId> results;    // by differentiable argument; kNoValue for None
  };

  size_t differentiable = 0;                // so many of the arguments, the first ones
  std::vector<ValueId> saved;               // for the backward, which fails once one is written
  std::vector<ValueId> kept;                // the same, whatever becomes of them
  std::vector<ValueId> dirty;               // arguments that are written and handed back
  std::vector<ValueId> non_differentiable;  // results
  bool zeros_for_none = true;               // a gradient that does not arrive is zeros
  std::vector<Case> cases;
};

struct SourceLine {
  std::string file;
  int line = 0;
  std::string function;
  std::string code;  // the text of the line, stripped; "" where it cannot be read
};

enum class InputKind : uint8_t {
  Argument,   // of the user's call
  Parameter,  // an nn.Parameter met during capture
  Buffer,     // a tensor owned by a module
  Constant,   // any other real tensor: from a closure, a global, Python data
  Gradient,   // of an output, as it comes into a backward pass
  Saved,      // from the forward pass for the backward one
};

struct Input {
  ValueId id = kNoValue;
  InputKind kind = InputKind::Argument;
  std::string path;  // "model.fc.weight"; "" where the name says it all
};

struct Trace {
  std::string name = "computation";
  std::vector<Value> values;  // by number; those of bodies too
  std::vector<Input> inputs;  // arguments first, then lifted tensors
  std::vector<Call> calls;
  std::vector<ValueId> outputs;  // the leaves of `output_tree`
  OutputTree output_tree;
  // Calls from here on write to inputs and remake outputs that alias them; -1 when the trace has
  // not been functionalised.
  int32_t epilogue = -1;
  GradMode mode = GradMode::NoGrad;  // the mode the whole trace runs under
  StorageId storages = 0;            // how many storage ids have been given out
  std::vector<SourceLine> sources;
  std::vector<std::string> modules;
  std::string provenance;   // the pass that made it, as printed; "" as captured
  double milliseconds = 0;  // that this took
};

// A new value; a type without a storage gets one of its own.
ValueId add_value(Trace& trace, TensorType type);

// The type of a value of the trace, checked.
const TensorType& type_of(const Trace& trace, ValueId id);

// Calls `f(id)` for every tensor among the arguments or results, kNoValue excluded.
template <class F>
void for_each_value(const std::vector<Arg>& args, F&& f) {
  for (const Arg& arg : args)
    for (ValueId id : arg.values)
      if (id != kNoValue) f(id);
}

}  // namespace fulgurite

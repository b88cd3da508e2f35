// The catalogue: one record per operator about which we know more than its schema says. The only
// place where operators are named. An operator without a record works like any other.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/infer_schema.h>

#include "ops/draw_rule.h"
#include "ops/element_rule.h"
#include "ops/move_rule.h"
#include "ops/pointwise_rule.h"
#include "ops/row_rule.h"

namespace fulgurite {

// Arguments which an operator writes although its schema does not say so.
struct HiddenWrites {
  std::array<const char*, 2> args{};
  const char* flag = nullptr;  // the bool argument that switches them on; "" for always
};

// A function that gives the results of an operator for meta tensors; see `rule` below.
struct MetaRule {
  c10::KernelFunction (*kernel)() = nullptr;
  // As inferred from the function's signature; null where it takes any arguments.
  c10::FunctionSchema (*schema)() = nullptr;
};

// Calls that compute what `call` does, for an operator that is no composite of its own; some make
// its results, none writes. Their values are added to the trace. Throws Unsupported where there are
// none.
using Parts = std::vector<Call> (*)(Trace& trace, const Call& call);

// Bytes that ATen's kernel takes on top of the results of `call` and gives back before it returns:
// the most at once, estimated from what was measured with torch 2.13.
using Scratch = int64_t (*)(const Trace& trace, const Call& call);

// Which arguments are what, of an operator that multiplies rows with a matrix; -1: there is none.
struct ProductOperands {
  int32_t input = -1, weight = -1;
  int32_t bias = -1;                      // added to each row of the result
  std::array<int32_t, 2> scales{-1, -1};  // numbers
  bool by_rows = false;  // the matrix has a row for each element of a row of the result

  explicit constexpr operator bool() const { return input >= 0; }
};

struct OpRecord {
  std::string_view op;   // "relu", "where.self", "quantized::dropout"; of aten where not said
  std::string_view doc;  // one line: what it computes
  HiddenWrites hidden_writes{};
  // The functional form where it is not the name without `_`, or with `_functional`.
  std::string_view functional{};
  // Draws random numbers only when all of these arguments are true, or non-zero.
  std::array<const char*, 2> draws_when{};
  bool random = false;            // draws although neither tag nor generator says so
  bool effect = false;            // has an effect besides its results
  bool changes_metadata = false;  // of an argument, as resize_ does
  bool reads_data = false;        // Python values or shapes depend on data
  bool fixed_shape = false;       // tagged dynamic_output_shape, but not in all uses
  // A composite that looks at data, for checks or for its values; its results' types do not depend
  // on it.
  bool checks_data = false;
  PointwiseRule pointwise{};  // what it computes of each element, if it maps elements
  RowRule row{};              // what it computes of each row, if it reduces
  MoveRule move{};            // where its elements come from, if it only moves them
  ElementRule element{};      // the same of several arguments, or of none
  Parts parts = nullptr;      // as other calls, of which loops can be made
  DrawRule draw{};            // what it computes of random numbers for each element
  MetaRule meta{};            // where torch's own meta kernel is in Python
  ProductOperands product{};
  Scratch scratch = nullptr;  // null: next to nothing
  // Nanoseconds that ATen's kernel takes for an element of f32, where it is slower than what it
  // computes lets expect; measured by bench.costs.
  float aten_each = 0;
};

// Compile-time checks of a family's records.
template <size_t n>
consteval std::array<OpRecord, n> checked(std::array<OpRecord, n> records) {
  for (size_t i = 0; i < n; ++i) {
    const OpRecord& r = records[i];
    if (r.op.empty() || r.doc.empty()) throw "a record needs a name and a doc line";
    if (r.hidden_writes.args[0] && !r.hidden_writes.flag) throw "hidden writes need a flag";
    for (size_t k = 0; k < i; ++k)
      if (records[k].op == r.op) throw "two records for one operator";
  }
  return records;
}

// The rule that calls the function `f`, whose signature is that of the operator in C++.
template <auto f>
inline constexpr MetaRule rule{
    [] { return c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(f)); },
    [] {
      using Function = std::remove_pointer_t<decltype(f)>;
      return c10::inferFunctionSchemaFlattenedReturns<Function>();
    }};

// The rule of operators that return nothing, or only what they write.
void give_nothing(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);
inline constexpr MetaRule no_results{
    [] { return c10::KernelFunction::makeFromBoxedFunction<&give_nothing>(); }, nullptr};

// All records, one span per family.
std::span<const std::span<const OpRecord>> catalogue();

// The record of `op`, or null.
const OpRecord* find_record(const c10::OperatorHandle& op);

// Operators of these namespaces talk to other processes or to a profiler: each has an effect.
bool in_effectful_namespace(std::string_view name);

}  // namespace fulgurite

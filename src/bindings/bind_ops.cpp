// What is known of operators, for tests and for the curious.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "bindings/areas.h"
#include "bindings/python_tensor.h"
#include "capture/infer.h"
#include "ops/catalogue.h"
#include "ops/facts.h"
#include "ops/meta.h"
#include "ops/numbers_as_tensors.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

c10::OperatorHandle handle(const std::string& name, const std::string& overload) {
  return find_op(name.c_str(), overload.c_str());
}

nb::dict facts(const std::string& name, const std::string& overload) {
  const OpFacts& f = facts_of(handle(name, overload));
  nb::dict d;
  d["written"] = std::vector<int>(f.written.begin(), f.written.end());
  d["plain_returns"] = std::vector<int>(f.plain_returns.begin(), f.plain_returns.end());
  d["is_view"] = f.is_view;
  d["changes_metadata"] = f.changes_metadata;
  d["random"] = f.random;
  d["is_assert"] = f.is_assert;
  d["reads_data"] = f.reads_data;
  d["draws_when"] = std::vector<int>(f.draws_when.begin(), f.draws_when.end());
  d["hidden_write_flag"] = f.hidden_write_flag ? nb::cast(f.hidden_write_flag) : nb::none();
  return d;
}

std::optional<std::string> form(const std::string& name, const std::string& overload) {
  const auto& f = functional_form(handle(name, overload));
  if (!f) return {};
  const std::string& o = f->op.schema().overload_name();
  return f->op.schema().name() + (o.empty() ? "" : "." + o);
}

// A number for a Tensor parameter is wrapped, as the argument parser of torch does.
c10::IValue to_ivalue(const c10::Argument& parameter, nb::handle given) {
  const c10::TypePtr& type = parameter.real_type();
  const bool tensor = *type == *c10::TensorType::get();
  if (tensor && !is_python_tensor(given.ptr()) && !given.is_none()) {
    at::Tensor number =
        c10::scalar_to_tensor(torch::jit::toIValue(given.ptr(), c10::NumberType::get()).toScalar());
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
    return number;
  }
  return torch::jit::toIValue(given.ptr(), type);
}

torch::jit::Stack to_stack(const c10::OperatorHandle& op, nb::list args) {
  torch::jit::Stack stack;
  for (size_t i = 0; i < args.size(); ++i)
    stack.push_back(to_ivalue(op.schema().arguments()[i], args[i]));
  return stack;
}

// Calls `f(&stack)`, with torch's errors as its Python classes.
template <class F>
nb::list results_of(torch::jit::Stack stack, F f) {
  try {
    f(&stack);
  } catch (const c10::Error&) {
    torch::translate_exception_to_python(std::current_exception());
    throw nb::python_error();
  }
  nb::list results;
  for (c10::IValue& value : stack)
    results.append(nb::steal(torch::jit::toPyObject(std::move(value)).release().ptr()));
  return results;
}

// The results of the rule for an operator; None where it has no rule.
nb::object infer_by_rule(const std::string& name, const std::string& overload, nb::list args) {
  const c10::OperatorHandle op = handle(name, overload);
  const c10::KernelFunction* rule = meta_rule(op);
  if (!rule) return nb::none();
  return results_of(to_stack(op, args), [&](torch::jit::Stack* stack) {
    at::AutoDispatchBelowADInplaceOrView below;
    rule->callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
  });
}

// The results by whatever kernel capture takes.
nb::list infer_results(const std::string& name, const std::string& overload, nb::list args) {
  const c10::OperatorHandle op = handle(name, overload);
  return results_of(to_stack(op, args), [&](torch::jit::Stack* stack) { infer(op, stack); });
}

std::vector<std::string> record_names(bool with_rule) {
  std::vector<std::string> names;
  for (auto family : catalogue())
    for (const OpRecord& record : family)
      if (record.meta.kernel || !with_rule) names.emplace_back(record.op);
  return names;
}

}  // namespace

void bind_ops(nb::module_& m) {
  m.def("op_facts", &facts, nb::arg("name"), nb::arg("overload") = "");
  m.attr("NUMBERS_AS_TENSORS") = nb::make_tuple();
  for (const char* name : kNumbersAsTensors)
    m.attr("NUMBERS_AS_TENSORS") = m.attr("NUMBERS_AS_TENSORS") + nb::make_tuple(name);
  m.def("functional_form", &form, nb::arg("name"), nb::arg("overload") = "");
  m.def("infer_by_rule", &infer_by_rule, nb::arg("name"), nb::arg("overload"), nb::arg("args"));
  m.def("infer", &infer_results, nb::arg("name"), nb::arg("overload"), nb::arg("args"));
  m.def(
      "has_rule",
      [](const std::string& name, const std::string& overload) {
        return meta_rule(handle(name, overload)) != nullptr;
      },
      nb::arg("name"), nb::arg("overload") = "");
  m.def("catalogue", &record_names, nb::arg("with_rule") = false);
}

}  // namespace fulgurite

#include "bindings/user_executor.h"

#include <nanobind/stl/string.h>

#include <ATen/SavedTensorHooks.h>

#include "bindings/bound_trace.h"
#include "bindings/errors.h"
#include "bindings/tensor_caster.h"
#include "executors/operators/operators.h"
#include "ir/print.h"
#include "passes/filter.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

// Calls of a trace that is being made, as views that outlive it. Values are only ever added to such
// a trace: they are copied once.
class Excerpts {
 public:
  BoundCall of(const Trace& trace, const Call& call) {
    if (&trace != seen_ || trace.values.size() < values_->values.size()) {
      seen_ = &trace;
      values_ = std::make_shared<Trace>(without_calls(trace));
    }
    for (size_t i = values_->values.size(); i < trace.values.size(); ++i)
      values_->values.push_back(trace.values[i]);
    values_->storages = trace.storages;
    auto one = std::make_shared<One>(One{values_, call});
    return {TracePtr(one, values_.get()), &one->call};
  }

 private:
  struct One {
    std::shared_ptr<Trace> values;
    Call call;
  };

  const Trace* seen_ = nullptr;
  std::shared_ptr<Trace> values_;
};

// The last one to let go of a Python object may be a thread that runs a plan.
std::shared_ptr<nb::object> kept(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            nb::gil_scoped_acquire gil;
            delete held;
          }};
}

std::vector<at::Tensor> tensors_from(nb::handle made) {
  std::vector<at::Tensor> tensors;
  const auto add = [&](nb::handle item) {
    if (!is_python_tensor(item.ptr()))
      throw nb::type_error(fmt::format("it returned a {}; it has to return a tensor, or a tuple of "
                                       "them",
                                       Py_TYPE(item.ptr())->tp_name)
                               .c_str());
    tensors.push_back(tensor_of(item.ptr()));
  };
  if (nb::isinstance<nb::tuple>(made) || nb::isinstance<nb::list>(made))
    for (nb::handle item : made) add(item);
  else
    add(made);
  return tensors;
}

std::string in_words(const nb::python_error& error) {
  return fmt::format("{}: {}", nb::cast<std::string>(error.type().attr("__name__")),
                     nb::cast<std::string>(nb::str(error.value())));
}

CallFunction call_function(nb::object function, const std::string& where) {
  return [function = kept(std::move(function)), where](const std::vector<at::Tensor>& tensors) {
    nb::gil_scoped_acquire gil;
    try {
      nb::list given;
      for (const at::Tensor& tensor : tensors) given.append(nb::cast(tensor));
      const nb::object made = (*function)(*given);
      return tensors_from(made);
    } catch (nb::python_error& error) {
      const std::string text = fmt::format("{}: {}", where, in_words(error));
      // Hooks of saved tensors raise errors of their caller's.
      const bool has_hooks = at::SavedTensorDefaultHooks::get_hooks().has_value();
      throw PythonFailure(text, std::move(error), has_hooks);
    } catch (const nb::builtin_exception& error) {
      throw UserError(fmt::format("{}: {}", where, error.what()));
    }
  };
}

}  // namespace

Executor executor_of(nb::handle given) {
  if (!nb::isinstance<UserExecutor>(given)) return nb::cast<const Executor&>(given);
  const auto& user = nb::cast<const UserExecutor&>(given);
  const auto excerpts = std::make_shared<Excerpts>();
  OperatorRules rules;
  rules.differentiable = user.differentiable;
  rules.claims = [excerpts, ask = kept(user.ask)](const Trace& trace, const Call& call) {
    return nb::cast<std::string>((*ask)(excerpts->of(trace, call)));
  };
  rules.lower = [excerpts, make = kept(user.make), name = user.name](const Trace& trace,
                                                                     const Call& call) {
    const std::string where =
        fmt::format("the executor {} failed in {}", name, print_call(trace, call));
    return call_function((*make)(excerpts->of(trace, call)), where);
  };
  return operator_executor(user.name, std::move(rules));
}

void bind_user_executor(nb::module_& m) {
  nb::class_<UserExecutor, Executor>(m, "UserExecutor",
                                     "An executor whose claims and functions are Python's.")
      .def(
          "__init__",
          [](UserExecutor* self, std::string name, nb::callable claims, nb::callable lower,
             bool differentiable) {
            new (self) UserExecutor();
            self->name = std::move(name);
            self->ask = std::move(claims);
            self->make = std::move(lower);
            self->differentiable = differentiable;
          },
          nb::arg("name"), nb::arg("claims"), nb::arg("lower"), nb::arg("differentiable"));
}

}  // namespace fulgurite

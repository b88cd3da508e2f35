#include "bindings/areas.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "bindings/call_views.h"
#include "bindings/errors.h"
#include "bindings/rewrite.h"
#include "bindings/tensor_caster.h"
#include "bindings/user_executor.h"
#include "capture/replay.h"
#include "compile/pipeline.h"
#include "executors/aten/aten.h"
#include "executors/fused_cpu/fused_cpu.h"
#include "executors/onednn/onednn.h"
#include "ir/literal.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ops/facts.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

std::vector<int64_t> list_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

nb::object dtype_of(c10::ScalarType type) {
  PyObject* dtype = reinterpret_cast<PyObject*>(torch::getTHPDtype(type));
  return nb::borrow(dtype);
}

}  // namespace

nb::object argument_in_python(const TracePtr& trace, const Arg& arg) {
  const auto value = [&](ValueId id) -> nb::object {
    return id == kNoValue ? nb::object(nb::none()) : nb::cast(BoundValue{trace, id});
  };
  if (arg.kind == Arg::Kind::Constant) return constant_in_python(arg.constant);
  if (arg.kind == Arg::Kind::Value) return value(arg.values[0]);
  nb::list list;
  for (ValueId id : arg.values) list.append(value(id));
  return list;
}

namespace {

nb::list arguments(const TracePtr& trace, const std::vector<Arg>& args) {
  nb::list list;
  for (const Arg& arg : args) list.append(argument_in_python(trace, arg));
  return list;
}

nb::list calls(const TracePtr& trace, const std::vector<Call>& all) {
  nb::list list;
  for (const Call& call : all) list.append(BoundCall{trace, &call});
  return list;
}

nb::object source_of(const BoundCall& bound) {
  if (bound.call->source < 0) return nb::none();
  const SourceLine& line = bound.trace->sources[bound.call->source];
  return nb::make_tuple(line.file, line.line, line.function, line.code);
}

nb::list values(const TracePtr& trace, c10::ArrayRef<ValueId> ids) {
  nb::list list;
  for (ValueId id : ids) list.append(BoundValue{trace, id});
  return list;
}

nb::list retyped(const BoundCall& bound) {
  nb::list list;
  for (const Retyped& change : bound.call->retyped)
    list.append(nb::make_tuple(BoundValue{bound.trace, change.id}, print_type(change.type)));
  return list;
}

// A float, complex number, string or device as the printer spells it.
std::string literal(nb::handle value) {
  c10::TypePtr type;
  if (PyFloat_Check(value.ptr())) type = c10::FloatType::get();
  if (PyComplex_Check(value.ptr())) type = c10::ComplexType::get();
  if (PyUnicode_Check(value.ptr())) type = c10::StringType::get();
  if (THPDevice_Check(value.ptr())) type = c10::DeviceObjType::get();
  if (!type) throw nb::type_error("a float, a complex number, a string or a device");
  std::string text;
  append_literal(text, torch::jit::toIValue(value.ptr(), type), *type);
  return text;
}

// What is policy, or about files, is written in Python.
nb::object trace_file(const char* function) {
  return nb::module_::import_("fulgurite._trace_file").attr(function);
}

const char* mode_name(GradMode mode) {
  switch (mode) {
    case GradMode::NoGrad:
      return "no_grad";
    case GradMode::Grad:
      return "enable_grad";
    case GradMode::Inference:
      return "inference_mode";
  }
  internal_error("a grad mode of no name");
}

void bind_value(nb::module_& m) {
  nb::class_<BoundValue>(m, "TraceValue", "A tensor of a trace.")
      .def_prop_ro("name", [](const BoundValue& v) { return spell(*v.trace, v.id); })
      .def_ro("number", &BoundValue::id)
      .def_prop_ro("shape",
                   [](const BoundValue& v) { return nb::tuple(nb::cast(list_of(v.type().sizes))); })
      .def_prop_ro(
          "strides",
          [](const BoundValue& v) { return nb::tuple(nb::cast(list_of(v.type().strides))); })
      .def_prop_ro("offset", [](const BoundValue& v) { return v.type().offset; })
      .def_prop_ro(
          "storage", [](const BoundValue& v) { return v.type().storage; },
          "Equal for values that share memory.")
      .def_prop_ro(
          "nbytes", [](const BoundValue& v) { return v.type().nbytes; }, "Of that memory.")
      .def_prop_ro("is_conj", [](const BoundValue& v) { return v.type().conj; })
      .def_prop_ro("is_neg", [](const BoundValue& v) { return v.type().neg; })
      .def_prop_ro("dtype", [](const BoundValue& v) { return dtype_of(v.type().dtype); })
      .def_prop_ro("device", [](const BoundValue& v) { return v.type().device.str(); })
      .def_prop_ro("requires_grad", [](const BoundValue& v) { return v.type().requires_grad; })
      .def("__eq__", [](const BoundValue& a,
                        const BoundValue& b) { return a.id == b.id && a.trace == b.trace; })
      .def("__hash__", [](const BoundValue& v) { return v.id; })
      .def("__repr__", [](const BoundValue& v) {
        return fmt::format("{}: \"{}\"", spell(*v.trace, v.id), print_type(v.type()));
      });
}

void bind_call(nb::module_& m) {
  nb::class_<BoundCall>(m, "BoundSymbol", "One call of a trace.")
      .def_prop_ro(
          "name", [](const BoundCall& b) { return b.call->op.name(); },
          "The operator with its overload, 'aten::add.Tensor', or the region's name.")
      .def_prop_ro("op", &operator_of, "The operator as torch.ops has it.")
      .def_prop_ro("args", [](const BoundCall& b) { return arguments(b.trace, b.call->args); })
      .def_prop_ro("outputs",
                   [](const BoundCall& b) { return arguments(b.trace, b.call->results); })
      .def_prop_ro(
          "subsymbols", [](const BoundCall& b) { return calls(b.trace, b.call->body); },
          "The calls below autograd that it made.")
      .def_prop_ro("retyped", &retyped,
                   "(value, type as printed) for what it gives another geometry in place.")
      .def_prop_ro(
          "frees", [](const BoundCall& b) { return values(b.trace, b.call->frees); },
          "Not used after it; printed as del.")
      .def_prop_ro("source", &source_of, "(file, line, function, code) of the user's call, or None")
      .def_prop_ro("module",
                   [](const BoundCall& b) {
                     return b.call->module < 0 ? std::string() : b.trace->modules[b.call->module];
                   })
      .def_prop_ro("grad_mode", [](const BoundCall& b) { return mode_name(b.call->mode); })
      .def_prop_ro("executor", [](const BoundCall& b) { return b.call->executor; })
      .def_prop_ro("arguments", &arguments_by_name,
                   "{name of the schema: argument}; of a region, {} .")
      .def_prop_ro("writes", &written_values, "What it or its body writes to, or changes in place.")
      .def_prop_ro(
          "draws", [](const BoundCall& b) { return draws(*b.call); },
          "Whether it draws random numbers.")
      .def_prop_ro(
          "has_effect", [](const BoundCall& b) { return has_effect(*b.call); },
          "Whether it does anything besides making its results.")
      .def("__call__", &call_again, nb::arg("args"),
           "Its operator on other arguments, given as `args` gives them.")
      .def("__repr__", [](const BoundCall& b) { return print_call(*b.trace, *b.call); });
}

template <auto make, class Given>
std::shared_ptr<Trace> in_pointer(TracePtr trace, Given given) {
  return std::make_shared<Trace>(make(std::move(trace), std::move(given)));
}

void bind_trace_class(nb::module_& m) {
  nb::class_<Trace>(m, "Trace", nb::is_weak_referenceable(),
                    "A printed, complete, runnable program; str() is its text.")
      .def("__str__", [](const Trace& t) { return print(t, {.times = true}); })
      .def("__repr__",
           [](const Trace& t) {
             return fmt::format("<fulgurite.Trace {} of {} calls{}{}>", t.name, t.calls.size(),
                                t.provenance.empty() ? "" : ", made by ", t.provenance);
           })
      .def(
          "text", [](const Trace& t, int depth) { return print(t, {.depth = depth}); },
          nb::arg("depth") = 0, "The program without times: equal for equal runs.")
      .def_ro("name", &Trace::name)
      .def_ro("provenance", &Trace::provenance, "the pass that made it; '' as captured")
      .def_ro("milliseconds", &Trace::milliseconds, "that the pass took")
      .def_prop_ro("grad_mode", [](const Trace& t) { return mode_name(t.mode); })
      .def_prop_ro("bound_symbols", [](std::shared_ptr<Trace> t) { return calls(t, t->calls); })
      .def_prop_ro("inputs",
                   [](std::shared_ptr<Trace> t) {
                     nb::list list;
                     for (const Input& input : t->inputs) list.append(BoundValue{t, input.id});
                     return list;
                   })
      .def_prop_ro("outputs", [](std::shared_ptr<Trace> t) { return values(t, t->outputs); })
      .def_ro("epilogue", &Trace::epilogue, "index of the first call of the epilogue; -1: none")
      .def(
          "save", [](nb::handle self, nb::handle path) { trace_file("save")(self, path); },
          nb::arg("path"), "Writes the program to a file, for fulgurite.load.")
      .def(
          "python_ctx", [](nb::handle self) { return nb::object(trace_file("names_of")(self)); },
          "{name: object} that the printed program needs.")
      .def(
          "replay",
          [](const Trace& t, const std::vector<at::Tensor>& inputs) { return replay(t, inputs); },
          "Runs it, one tensor per input.")
      .def(
          "difference", [](const Trace& a, const Trace& b) { return difference(a, b); },
          "'' when both are the same program, otherwise what differs first")
      .def(
          "memory",
          [](nb::handle self) {
            return nb::object(nb::module_::import_("fulgurite._memory").attr("memory_of")(self));
          },
          "How many bytes of tensors a run needs, call by call; print it for a listing.")
      .def("verify", [](const Trace& t) { verify(t, t.provenance); })
      .def("rewrite", &in_pointer<&rewrite, nb::callable>, nb::arg("rule"),
           "Run again: rule(call, *arguments) gives what takes the place of each call's results, "
           "or NotImplemented to keep the call, or {value: tensor} for its results and for values "
           "made before. Call operators of torch in it.")
      .def("retrace", &in_pointer<&retrace, nb::callable>, nb::arg("program"),
           "The calls that program(*inputs) makes, which returns a list of the outputs.")
      .def("part", &part_of, nb::arg("calls"), nb::arg("inputs"), nb::arg("outputs"),
           "Some of its bound_symbols as a trace of their own, from these values to those.")
      .def("with_calls", &in_pointer<&with_calls, nb::iterable>, nb::arg("calls"),
           "The trace with these of its bound_symbols, in this order.");
}

void bind_compiled(nb::module_& m) {
  nb::class_<Executor>(m, "Executor", "Who runs calls of a trace.")
      .def_ro("name", &Executor::name)
      .def("__repr__", [](const Executor& e) { return fmt::format("<executor {}>", e.name); });
  bind_user_executor(m);
  m.def("aten_executor", &aten_executor);
  m.def("fused_cpu_executor", &fused_cpu_executor);
  m.def("onednn_executor", &onednn_executor);
  nb::class_<Decision>(m, "Decision", "What an executor said of a call.")
      .def_ro("executor", &Decision::executor)
      .def_ro("call", &Decision::call)
      .def_ro("refusal", &Decision::refusal);
  const auto traces = [](const std::vector<Trace>& series) {
    nb::list list;
    for (const Trace& trace : series) list.append(std::make_shared<Trace>(trace));
    return list;
  };
  nb::class_<Compiled>(m, "Compiled")
      .def_prop_ro("series", [traces](const Compiled& c) { return traces(c.series); })
      .def_prop_ro("backward", [traces](const Compiled& c) { return traces(c.backward); })
      .def_prop_ro("finish", [traces](const Compiled& c) { return traces(c.finish); })
      .def_prop_ro(
          "saved",
          [](const Compiled& c) {
            nb::list reasons;
            for (const SavedValue& value : c.saved) reasons.append(value.reason);
            return reasons;
          },
          "Why each value that the backward pass takes besides gradients is kept.")
      .def_ro("bytes_needed", &Compiled::bytes_needed,
              "Of what the forward pass makes and the formulas of the backward one use.")
      .def_ro("undifferentiated", &Compiled::undifferentiated,
              "Why torch's own autograd sees each call of a program with results that have a "
              "history; '' where it does not.")
      .def_ro("decisions", &Compiled::decisions);
  m.def("pass_names", &pass_names);
  m.def(
      "compile",
      [](const Trace& trace, bool verify) {
        CompileOptions options;
        options.verify = verify;
        return std::make_shared<Compiled>(compile(trace, options));
      },
      nb::arg("trace"), nb::arg("verify") = false);
}

}  // namespace

void bind_trace(nb::module_& m) {
  m.def("literal", &literal);
  bind_value(m);
  bind_call(m);
  bind_trace_class(m);
  bind_compiled(m);
}

}  // namespace fulgurite

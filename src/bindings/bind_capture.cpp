// The tracer, as a context manager.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <torch/csrc/Dtype.h>

#include "bindings/areas.h"
#include "bindings/tensor_caster.h"
#include "capture/infer.h"
#include "capture/number.h"
#include "capture/replay.h"
#include "capture/tracer.h"
#include "compile/decisions.h"
#include "torch/default_generator.h"
#include "torch/dispatch_state.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

struct BoundTracer : Tracer {
  std::optional<Listening> listening;
};

std::shared_ptr<Captured> finish(Tracer& tracer, const std::vector<at::Tensor>& outputs) {
  const auto tree = flat_tree(static_cast<int32_t>(outputs.size()));
  return std::make_shared<Captured>(tracer.finish(outputs, tree));
}

// The keys are the names of TraceValue's properties.
at::Tensor typed_input(BoundTracer& tracer, std::string name, nb::dict given) {
  const auto dims = [&](const char* key) {
    const auto numbers = nb::cast<std::vector<int64_t>>(given[key]);
    return Dims(numbers.begin(), numbers.end());
  };
  TensorType type;
  nb::handle dtype = given["dtype"];
  if (!THPDtype_Check(dtype.ptr())) throw nb::type_error("a type needs a dtype");
  type.dtype = reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
  type.device = c10::Device(nb::cast<std::string>(given["device"]));
  type.sizes = dims("shape");
  type.strides = dims("strides");
  type.offset = nb::cast<int64_t>(given["offset"]);
  type.storage = nb::cast<StorageId>(given["storage"]);
  type.nbytes = nb::cast<int64_t>(given["nbytes"]);
  type.requires_grad = nb::cast<bool>(given["requires_grad"]);
  type.conj = nb::cast<bool>(given["is_conj"]);
  type.neg = nb::cast<bool>(given["is_neg"]);
  return tracer.input(type, std::move(name));
}

bool decide(const at::Tensor& number) {
  SoFar program = so_far(number);
  const auto plan = plan_of_decisions(std::move(program.trace));
  if (!plan)
    Tracer::active()->refuse(
        "the function decides on a number that is computed from whole tensors",
        "use torch.where instead of a Python condition, or leave this part out of the compiled "
        "function");
  CaptureOff off;
  const bool holds = plan->run(std::move(program.inputs))[0].item().toDouble() != 0;
  note_decision(number, holds);
  return holds;
}

}  // namespace

void bind_capture(nb::module_& m) {
  nb::class_<Tracer>(m, "Listener");
  nb::class_<BoundTracer, Tracer>(m, "Tracer", "Captures what runs while it is entered.")
      .def(nb::init<>())
      .def(
          "input",
          [](BoundTracer& t, const at::Tensor& real, std::string name) {
            return t.input(real, std::move(name));
          },
          nb::arg("real"), nb::arg("name") = "", "A trace tensor like `real`.")
      .def("typed_input", &typed_input, nb::arg("name"), nb::arg("type"),
           "A trace tensor of the type that a dict describes.")
      .def("__enter__",
           [](nb::handle self) {
             auto& tracer = nb::cast<BoundTracer&>(self);
             tracer.listening.emplace(tracer);
             return nb::borrow(self);
           })
      .def("__exit__", [](BoundTracer& t, nb::args) { t.listening.reset(); })
      .def("finish", &finish, "The program, with these tensors as its outputs.")
      .def_prop_ro(
          "grads",
          [](const BoundTracer& t) {
            nb::list list;
            for (const GivenGrad& given : t.grads())
              list.append(nb::make_tuple(given.leaf, given.grad));
            return list;
          },
          "(leaf, gradient) for every gradient that the program left in a leaf.");
  m.def(
      "read_data",
      [](const at::Tensor& real, const std::string& how) {
        if (Tracer* tracer = Tracer::active()) tracer->read_data(real, how);
      },
      nb::arg("real"), nb::arg("how") = "this");
  m.def("refuse_place_of_selection", &refuse_place_of_selection, nb::arg("tensor"),
        "Refuses a tensor that stands for a view at a place that is not known.");
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<DefaultGeneratorState>(m, "DefaultGeneratorState",
                                    "Of torch's default generator on the CPU, as it was.")
      .def(nb::init<>(), Unlocked())
      .def("differs", &DefaultGeneratorState::differs, Unlocked(), "from the state now")
      .def("restore", &DefaultGeneratorState::restore, Unlocked());
  m.def("number_in", &number_in, nb::arg("tensor"), nb::arg("lift") = false,
        "The number in a tensor, as a number of the trace; None where the tensor has data.");
  m.def("arithmetic", &arithmetic, nb::arg("numbers"), nb::arg("expression"),
        "A number computed from others; see capture/number.h.");
  m.def("decide", &decide, nb::arg("number"),
        "Whether a number of the trace is not 0, for the values that its tensors have now.");
  m.def("value_of", &trace_value, "The number of a value of the trace.");
  m.def("check_types", &check_types, nb::arg("trace"), nb::arg("inputs"), nb::arg("bodies") = false,
        "Where running the trace differs from the types in it; '' where it does not.");
  m.def("python_meta_calls", &python_meta_calls,
        "{operator: how often its meta kernel, written in Python, has run on this thread}");
}

}  // namespace fulgurite

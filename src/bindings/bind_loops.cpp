// Loop programs of captured traces, for tests and for the curious.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ATen/ATen.h>

#include "base/error.h"
#include "bindings/areas.h"
#include "bindings/tensor_caster.h"
#include "codegen/jit/cpu_target.h"
#include "codegen/loops/bind.h"
#include "codegen/loops/lower.h"
#include "codegen/loops/print_cpu.h"
#include "executors/fused_cpu/cost.h"
#include "ops/catalogue.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

struct BoundProgram {
  LoopProgram program;
  std::vector<TensorType> outputs;

  std::vector<at::Tensor> allocate() const {
    std::vector<at::Tensor> results;
    for (const TensorType& type : outputs)
      results.push_back(at::empty_strided(type.sizes, type.strides, type.dtype));
    return results;
  }
};

// A whole trace as one region.
BoundProgram lower(const Trace& trace) {
  c10::SmallVector<ValueId, 8> inputs;
  for (const Input& input : trace.inputs) inputs.push_back(input.id);
  auto made = lower_region(trace, trace.calls, inputs, trace.outputs);
  if (const auto* reason = std::get_if<Refusal>(&made)) throw Unsupported(*reason);
  BoundProgram bound{std::get<LoopProgram>(std::move(made)), {}};
  for (ValueId id : trace.outputs) bound.outputs.push_back(type_of(trace, id));
  return bound;
}

// (as one kernel, by ATen call by call), in nanoseconds.
nb::tuple estimates(const Trace& trace) {
  double apart = 0;
  for (const Call& call : trace.calls) apart += aten_nanoseconds(trace, call);
  return nb::make_tuple(kernel_nanoseconds(lower(trace).program, default_target().vector_bytes),
                        apart);
}

// "pointwise", "row", "move", "draw" or "element"; "" for a record without a rule.
const char* kind_of_rule(const OpRecord& record) {
  if (record.pointwise) return "pointwise";
  if (record.row) return "row";
  if (record.move) return "move";
  if (record.draw) return "draw";
  return record.element ? "element" : "";
}

nb::list rules() {
  nb::list all;
  for (auto family : catalogue())
    for (const OpRecord& record : family)
      if (const std::string kind = kind_of_rule(record); !kind.empty())
        all.append(nb::make_tuple(std::string(record.op), kind, record.pointwise.jumps));
  return all;
}

// Whether all checks hold.
bool run_in(const BoundProgram& bound, uintptr_t kernel, const std::vector<at::Tensor>& inputs,
            const std::vector<at::Tensor>& outputs, int64_t chunk, int64_t cache_bytes,
            int64_t times) {
  std::vector<void*> data;
  for (const at::Tensor& t : inputs) data.push_back(const_cast<void*>(t.const_data_ptr()));
  for (const at::Tensor& t : outputs) data.push_back(t.mutable_data_ptr());
  const BoundLoops loops = fulgurite::bind(bound.program, data, cache_bytes);
  const auto function = reinterpret_cast<KernelFunction>(kernel);
  int64_t failed = 0;
  const KernelArgs args = loops.args(&failed);
  const int64_t step = chunk > 0 ? chunk : std::max<int64_t>(1, loops.places);
  for (; times > 0; --times)
    for (int64_t begin = 0; begin < loops.places; begin += step)
      function(&args, begin, std::min(begin + step, loops.places));
  return !failed;
}

std::vector<std::string> named(bool (*wanted)(const OpRecord&)) {
  std::vector<std::string> names;
  for (auto family : catalogue())
    for (const OpRecord& record : family)
      if (wanted(record)) names.emplace_back(record.op);
  return names;
}

}  // namespace

void bind_loops(nb::module_& m) {
  nb::module_ loops = m.def_submodule("loops", "Traces as loop programs and as kernels' text.");
  nb::class_<BoundProgram>(loops, "LoopProgram", "What one generated kernel computes.")
      .def("__str__", [](const BoundProgram& bound) { return to_text(bound.program); })
      .def(
          "cpu",
          [](const BoundProgram& bound, const std::string& name, int vector_bytes) {
            return print_cpu(bound.program, name, vector_bytes);
          },
          nb::arg("name") = "kernel", nb::arg("vector_bytes") = 64, "C++ text.")
      .def_prop_ro("bytes", [](const BoundProgram& bound) { return bound.program.bytes(); })
      .def_prop_ro("places", [](const BoundProgram& bound) { return bound.program.places(); })
      .def("allocate", &BoundProgram::allocate, "Tensors for its outputs.")
      .def("run_in", &run_in, nb::arg("kernel"), nb::arg("inputs"), nb::arg("outputs"),
           nb::arg("chunk") = 0, nb::arg("cache_bytes") = int64_t{1} << 62, nb::arg("times") = 1,
           "Runs the machine code at an address, in chunks of so many places, so many times; "
           "whether all its checks hold.");
  loops.def(
      "pointwise_operators",
      [] { return named([](const OpRecord& record) { return bool(record.pointwise); }); },
      "Those with a rule for each element, as the catalogue names them.");
  loops.def(
      "element_operators",
      [] { return named([](const OpRecord& record) { return bool(record.element); }); },
      "Those with a rule for where their elements come from.");
  loops.def(
      "rules", &rules,
      "(operator, \"pointwise\", \"row\", \"move\" or \"element\", jumps) of each record with "
      "a rule.");
  loops.def("estimates", &estimates, nb::arg("trace"),
            "About how many nanoseconds the whole trace takes as one kernel, and by ATen.");
  loops.def("lower", &lower, nb::arg("trace"),
            "The whole trace as one loop program; raises Unsupported, with the reason.");
}

}  // namespace fulgurite

// What `jit` needs around a capture: the questions that wrapped functions of torch ask, and the
// way from a captured program to an entry.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/Exceptions.h>

#include "bindings/areas.h"
#include "bindings/arguments.h"
#include "bindings/entry.h"
#include "bindings/function_modes.h"
#include "bindings/key_description.h"
#include "bindings/language_hooks.h"
#include "bindings/rewrite.h"
#include "bindings/tensor_caster.h"
#include "bindings/user_executor.h"
#include "capture/tracer.h"
#include "compile/pipeline.h"
#include "ops/facts.h"
#include "passes/memory.h"
#include "pystate/place.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

using ModulePaths = std::unordered_map<const void*, std::string>;
thread_local const ModulePaths* t_module_paths = nullptr;

// Follows where the thread is, from before a capture until it is finished.
struct Tracking {
  explicit Tracking(nb::dict paths) {
    for (auto [id, path] : paths)
      module_paths[PyLong_AsVoidPtr(id.ptr())] = nb::cast<std::string>(path);
  }

  void enter() {
    places.emplace();
    before = std::exchange(t_module_paths, &module_paths);
  }
  void exit() {
    t_module_paths = before;
    places.reset();
  }

  ModulePaths module_paths;
  const ModulePaths* before = nullptr;
  std::optional<pystate::PlaceTracking> places;
};

OutputTree read_tree(nb::handle description) {
  static const std::unordered_map<std::string, OutputTree::Kind> kKinds{
      {"leaf", OutputTree::Kind::Leaf},   {"constant", OutputTree::Kind::Constant},
      {"tuple", OutputTree::Kind::Tuple}, {"list", OutputTree::Kind::List},
      {"dict", OutputTree::Kind::Dict},   {"object", OutputTree::Kind::Object}};
  OutputTree tree;
  tree.kind = kKinds.at(nb::cast<std::string>(description[0]));
  if (tree.kind == OutputTree::Kind::Leaf)
    tree.leaf = nb::cast<int32_t>(description[1]);
  else
    tree.text = nb::cast<std::string>(description[1]);
  for (nb::handle key : description[2]) tree.keys.push_back(nb::cast<std::string>(key));
  for (nb::handle child : description[3]) tree.children.push_back(read_tree(child));
  return tree;
}

InputKind read_kind(const std::string& name) {
  if (name == "parameter") return InputKind::Parameter;
  if (name == "buffer") return InputKind::Buffer;
  return InputKind::Constant;
}

void name_lifted(Captured& captured, size_t index, const std::string& kind, std::string path,
                 std::string name) {
  const size_t arguments = captured.trace.inputs.size() - captured.lifted.size();
  Input& input = captured.trace.inputs.at(arguments + index);
  input.kind = read_kind(kind);
  input.path = std::move(path);
  captured.trace.values[input.id].name = std::move(name);
}

// Whether the result depends on where an input lies in its storage: as_strided counts from there.
bool uses_offsets(const Trace& trace, const std::vector<Call>& calls,
                  const std::unordered_set<StorageId>& inputs) {
  for (const Call& call : calls) {
    if (!call.op.aten && uses_offsets(trace, call.body, inputs)) return true;
    if (call.gradient)
      for (const CustomGradient::Case& one : call.gradient->cases)
        if (uses_offsets(trace, one.calls, inputs)) return true;
    if (!call.op.aten) continue;
    const auto& arguments = call.op.aten->schema().arguments();
    if (std::none_of(arguments.begin(), arguments.end(),
                     [](const auto& a) { return a.name() == "storage_offset"; }))
      continue;
    bool found = false;
    for_each_value(call.args,
                   [&](ValueId id) { found |= inputs.count(type_of(trace, id).storage); });
    if (found) return true;
  }
  return false;
}

std::unordered_set<StorageId> storages_of_inputs(const Trace& trace) {
  std::unordered_set<StorageId> storages;
  for (const Input& input : trace.inputs) storages.insert(type_of(trace, input.id).storage);
  return storages;
}

bool uses_offsets(const Trace& trace) {
  return uses_offsets(trace, trace.calls, storages_of_inputs(trace));
}

// To the memory of one.
bool writes_inputs(const Trace& trace) {
  const auto inputs = storages_of_inputs(trace);
  bool writes = false;
  for (const Call& call : trace.calls)
    for_each_change(call,
                    [&](ValueId id) { writes |= inputs.contains(type_of(trace, id).storage); });
  return writes;
}

nb::list argument_tensors(nb::tuple args, nb::dict keywords) {
  c10::SmallVector<PyObject*, 8> all;
  for (nb::handle arg : args) all.push_back(arg.ptr());
  nb::list keys;
  for (auto [key, value] : keywords) {
    keys.append(key);
    all.push_back(value.ptr());
  }
  const nb::tuple names(keys);
  Arguments arguments;
  read_arguments(arguments, all.data(), static_cast<Py_ssize_t>(nb::len(args)), names.ptr(), false);
  nb::list tensors;
  for (PyObject* tensor : arguments.tensors) tensors.append(nb::handle(tensor));
  return tensors;
}

nb::bytes ambient_key() {
  Key key;
  append_ambient(key);
  return nb::bytes(reinterpret_cast<const char*>(key.data()), key.size() * sizeof(uint64_t));
}

// By code object.
std::unordered_map<const void*, std::string>& data_checks() {
  static auto& checks = *new std::unordered_map<const void*, std::string>;
  return checks;
}

// `transforms`: (name, name of a pass, whether before it, function from trace to trace).
CompileOptions read_options(bool verify, nb::iterable executors, nb::iterable transforms,
                            bool keep_inputs) {
  CompileOptions options;
  options.verify = verify;
  options.keep_inputs = keep_inputs;
  for (nb::handle executor : executors) options.executors.push_back(executor_of(executor));
  for (nb::handle transform : transforms)
    options.extra.push_back({nb::cast<std::string>(transform[0]),
                             nb::cast<std::string>(transform[1]), nb::cast<bool>(transform[2]),
                             [run = nb::borrow(transform[3])](const Trace& trace) {
                               nb::object made = run(std::make_shared<Trace>(trace));
                               return nb::cast<const Trace&>(made);
                             }});
  return options;
}

std::shared_ptr<Compiled> compile_captured(const Captured& captured, bool verify,
                                           nb::iterable executors, nb::iterable transforms,
                                           bool keep_inputs, bool differentiate,
                                           std::vector<bool> gradients, uint64_t autocast,
                                           double memory_budget, std::string name) {
  CompileOptions options = read_options(verify, executors, transforms, keep_inputs);
  options.differentiate = differentiate;
  options.gradients = std::move(gradients);
  options.autocast = AutocastState(autocast);
  options.name = std::move(name);
  options.memory_budget = memory_budget;
  return std::make_shared<Compiled>(compile(captured.trace, options));
}

void bind_questions(nb::module_& m) {
  m.def(
      "is_capturing", [] { return Tracer::active() != nullptr; },
      "Whether this thread is being captured.");
  m.def("is_trace_tensor", &is_trace_tensor);
  m.def("describe_trace_tensor", &describe_trace_tensor);
  m.def(
      "copy_of",
      [](const at::Tensor& tensor, const std::vector<std::pair<at::Tensor, at::Tensor>>& others) {
        std::vector<Copy> copies;
        for (const auto& [original, copy] : others) copies.push_back({original, copy});
        return copy_of(tensor, copies);
      },
      nb::arg("tensor"), nb::arg("others") = std::vector<std::pair<at::Tensor, at::Tensor>>(),
      "copy.deepcopy of a traced tensor, after those of (original, copy).");
  m.def("refuse", [](const std::string& what, const std::string& instead) {
    if (Tracer* tracer = Tracer::active()) tracer->refuse(what, instead);
  });
  m.def(
      "checks_data",
      [](nb::object function, std::string error) {
        // The code is kept for good: its address stands for it.
        data_checks()[function.attr("__code__").inc_ref().ptr()] = std::move(error);
      },
      "The function makes one bool of data, and raises a ValueError with this message if it is.");
  m.def("ambient_key", &ambient_key, "The settings of torch that entries depend on.");
  m.def(
      "guarded_type",
      [](const at::Tensor& tensor) {
        Key words;
        append_tensor(words, *tensor.unsafeGetTensorImpl());
        return describe_key(words);
      },
      "What a guard compares of a tensor: (dtype, device, sizes, strides, requires_grad, keys).");
  m.def(
      "aliasing",
      [](const std::vector<at::Tensor>& tensors) {
        Key words;
        c10::SmallVector<const at::TensorImpl*, 8> impls;
        for (const at::Tensor& tensor : tensors) impls.push_back(tensor.unsafeGetTensorImpl());
        append_aliasing(words, impls);
        return describe_aliasing(words);
      },
      "(i, j, None or offset) where tensor i is tensor j, or shares its memory.");
  m.def("default_device_word", &default_device_word, "0 where there is no default device.");
  m.def("argument_tensors", &argument_tensors, "The tensors of a call, in order, with repeats.");
}

}  // namespace

std::string module_path(const LanguageHooks::Place& place) {
  if (!t_module_paths) return "";
  const auto found = t_module_paths->find(place.module);
  return found == t_module_paths->end() ? "" : found->second;
}

bool find_data_check(std::string& error) {
  nb::gil_scoped_acquire gil;
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return false;
  const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  const auto found = data_checks().find(code.ptr());
  if (found == data_checks().end()) return false;
  error = found->second;
  return true;
}

bool is_indexing(LanguageHooks::Place& place) {
  nb::gil_scoped_acquire gil;
  return pystate::is_indexing(place);
}

void run_unlocked(const std::function<void()>& work) {
  if (!PyGILState_Check()) return work();
  nb::gil_scoped_release released;
  try {
    work();
  } catch (::python_error&) {
    // Torch sets it again when it is caught.
    nb::gil_scoped_acquire locked;
    PyErr_Clear();
    throw Unsupported("a Python function that it calls raises an error");
  }
}

bool current_place(LanguageHooks::Place& place) noexcept { return pystate::current_place(place); }

SourceLine source_line(const LanguageHooks::Place& place) {
  nb::gil_scoped_acquire gil;
  // Reading the file is none of the program's doing: it is not recorded.
  PyThreadState* thread = PyThreadState_Get();
  PyThreadState_EnterTracing(thread);
  SourceLine line = pystate::source_of(place);
  PyThreadState_LeaveTracing(thread);
  return line;
}

void bind_jit(nb::module_& m) {
  bind_questions(m);
  nb::class_<Tracking>(m, "PlaceTracking", "A block in which the lines of the program are known.")
      .def(nb::init<nb::dict>(), nb::arg("module_paths"))
      .def("__enter__", &Tracking::enter)
      .def("__exit__", [](Tracking& t, nb::args) { t.exit(); });
  nb::class_<Captured>(m, "Captured")
      .def_ro("lifted", &Captured::lifted)
      .def_ro("writes_inputs", &Captured::writes_inputs)
      .def_prop_ro(
          "reads",
          [](const Captured& c) {
            std::vector<at::Tensor> reads;
            for (const DataRead& read : c.data_reads) reads.push_back(read.real);
            return reads;
          },
          "real tensors whose data the program read")
      .def_prop_ro("trace", [](const Captured& c) { return std::make_shared<Trace>(c.trace); })
      .def("name_lifted", &name_lifted);
  m.def(
      "finish",
      [](Tracer& tracer, const std::vector<at::Tensor>& outputs, nb::handle tree) {
        return std::make_shared<Captured>(tracer.finish(outputs, read_tree(tree)));
      },
      "The program that a tracer captured.");
  m.def("compile_captured", &compile_captured, nb::arg("captured"), nb::arg("verify"),
        nb::arg("executors") = nb::list(), nb::arg("transforms") = nb::list(),
        nb::arg("keep_inputs") = false, nb::arg("differentiate") = true,
        nb::arg("gradients") = std::vector<bool>(), nb::arg("autocast") = 0,
        nb::arg("memory_budget") = 1.0, nb::arg("name") = "",
        "gradients: by output, whether one is expected to come in; empty where that is not known. "
        "autocast: that the backward pass is expected to run under (Entry.other_gradients). "
        "name: as profilers show it.");
  m.def(
      "compile_trace",
      [](const Trace& trace, bool verify, nb::iterable executors, bool keep_inputs) {
        Trace given = trace;
        given.provenance = "Replaced";
        return std::make_shared<Compiled>(compile(
            given,
            read_options(verify, executors, nb::borrow<nb::iterable>(nb::list()), keep_inputs)));
      },
      nb::arg("trace"), nb::arg("verify"), nb::arg("executors"), nb::arg("keep_inputs"),
      "A program that a user put in place of a captured one.");
  m.def("writes_inputs", &writes_inputs, nb::arg("trace"));
  m.def("uses_offsets", [](const Compiled& compiled) {
    return uses_offsets(compiled.series.back()) ||
           (!compiled.backward.empty() && uses_offsets(compiled.backward.back())) ||
           (!compiled.finish.empty() && uses_offsets(compiled.finish.back()));
  });
}

}  // namespace fulgurite

#include "pystate/place.h"

#include <c10/util/flat_hash_map.h>

#include <string_view>

#include "pystate/interpreter.h"
#include "pystate/ref.h"

namespace fulgurite::pystate {
namespace {

enum class CodeOrigin : uint8_t { User, TorchModules, Skipped, ModuleCall };

// Directories end with a separator.
struct Directories {
  std::string torch, torch_nn, own;
  Ref module_call;  // the code of nn.Module._call_impl
};

std::string directory_of(const char* package) {
  Ref module = Ref::steal(PyImport_ImportModule(package));
  Ref file = Ref::steal(module ? PyObject_GetAttrString(module.get(), "__file__") : nullptr);
  const char* path = file && PyUnicode_Check(file.get()) ? PyUnicode_AsUTF8(file.get()) : nullptr;
  if (!path) {
    PyErr_Clear();
    return "";
  }
  std::string_view text = path;
  return std::string(text.substr(0, text.rfind('/') + 1));
}

Ref attribute(const Ref& object, const char* name) {
  return Ref::steal(object ? PyObject_GetAttrString(object.get(), name) : nullptr);
}

Directories find_directories() {
  Directories found;
  found.torch = directory_of("torch");
  found.torch_nn = found.torch + "nn/";
  found.own = directory_of("fulgurite");
  Ref module = attribute(Ref::steal(PyImport_ImportModule("torch.nn")), "Module");
  found.module_call = attribute(attribute(module, "_call_impl"), "__code__");
  if (!found.module_call) PyErr_Clear();
  return found;
}

// Never freed: the interpreter may be gone when statics are destroyed.
const Directories& directories() {
  static const Directories& found = *new Directories(find_directories());
  return found;
}

CodeOrigin origin_of(PyCodeObject* code) {
  const Directories& known = directories();
  if (reinterpret_cast<PyObject*>(code) == known.module_call.get()) return CodeOrigin::ModuleCall;
  const char* path = PyUnicode_AsUTF8(code->co_filename);
  if (!path) {
    PyErr_Clear();
    return CodeOrigin::User;
  }
  std::string_view file = path;
  auto in = [&](const std::string& directory) {
    return !directory.empty() && file.starts_with(directory);
  };
  if (in(known.torch_nn)) return CodeOrigin::TorchModules;
  bool skipped = in(known.torch) || in(known.own) || file.starts_with("<frozen ");
  return skipped ? CodeOrigin::Skipped : CodeOrigin::User;
}

}  // namespace

struct PlaceTracking::State {
  PyThreadState* thread = nullptr;
  const Frame* outermost = nullptr;                     // the frame that was running at the start
  ska::flat_hash_map<PyCodeObject*, CodeOrigin> codes;  // owns a reference to each

  CodeOrigin learn(PyCodeObject* code) {
    CodeOrigin origin = origin_of(code);
    if (codes.emplace(code, origin).second) Py_INCREF(code);
    return origin;
  }
};

namespace {

thread_local PlaceTracking::State* tracking = nullptr;

CodeOrigin lookup(PyCodeObject* code) {
  auto found = tracking->codes.find(code);
  if (found != tracking->codes.end()) return found->second;
  PyGILState_STATE gil = PyGILState_Ensure();
  CodeOrigin origin = tracking->learn(code);
  PyGILState_Release(gil);
  return origin;
}

void take_line(LanguageHooks::Place& place, const Frame* frame) {
  place.code = code_of(frame);
  place.instruction = instruction_of(frame);
}

}  // namespace

PlaceTracking::PlaceTracking() : state_(std::make_unique<State>()) {
  require(!tracking, "places are tracked on this thread already");
  directories();
  state_->thread = PyThreadState_Get();
  state_->outermost = innermost_frame(state_->thread);
  tracking = state_.get();
}

PlaceTracking::~PlaceTracking() {
  tracking = nullptr;
  for (auto& [code, origin] : state_->codes) Py_DECREF(code);
}

bool current_place(LanguageHooks::Place& place) noexcept {
  if (!tracking) return false;
  place = {};
  const Frame* torch_line = nullptr;
  bool inside = true;  // of the frame that started the tracking
  for (const Frame* frame = innermost_frame(tracking->thread); frame; frame = caller_of(frame)) {
    if (frame == tracking->outermost) inside = false;
    switch (lookup(code_of(frame))) {
      case CodeOrigin::User:
        if (!place.code && (inside || !torch_line)) take_line(place, frame);
        break;
      case CodeOrigin::TorchModules:
        if (!torch_line) torch_line = frame;
        break;
      case CodeOrigin::ModuleCall:
        if (!place.module && inside) place.module = first_parameter(frame);
        break;
      case CodeOrigin::Skipped:
        break;
    }
    bool has_line = place.code || torch_line;
    if ((place.code && place.module) || (has_line && !inside)) break;
  }
  if (!place.code && torch_line) take_line(place, torch_line);
  return place.code || place.module;
}

SourceLine source_of(const LanguageHooks::Place& place) {
  SourceLine source;
  if (!place.code) return source;
  auto* code = static_cast<PyCodeObject*>(const_cast<void*>(place.code));
  auto text = [](PyObject* string) {
    const char* utf8 = PyUnicode_AsUTF8(string);
    if (!utf8) PyErr_Clear();
    return std::string(utf8 ? utf8 : "");
  };
  source.file = text(code->co_filename);
  source.function = text(code->co_qualname);
  source.line = PyCode_Addr2Line(code, place.instruction * static_cast<int>(sizeof(_Py_CODEUNIT)));
  Ref linecache = Ref::steal(PyImport_ImportModule("linecache"));
  Ref line = Ref::steal(linecache ? PyObject_CallMethod(linecache.get(), "getline", "Oi",
                                                        code->co_filename, source.line)
                                  : nullptr);
  Ref stripped = Ref::steal(line ? PyObject_CallMethod(line.get(), "strip", nullptr) : nullptr);
  if (stripped && PyUnicode_Check(stripped.get())) source.code = text(stripped.get());
  PyErr_Clear();
  return source;
}

void expect_code(PyCodeObject* code) {
  if (tracking && !tracking->codes.count(code)) tracking->learn(code);
}

}  // namespace fulgurite::pystate

#include "pystate/place.h"

#include <c10/util/flat_hash_map.h>

#include "pystate/expected_code.h"
#include "pystate/interpreter.h"
#include "pystate/opcodes.h"
#include "pystate/packages.h"
#include "pystate/ref.h"

namespace fulgurite::pystate {
namespace {

enum class CodeOrigin : uint8_t { User, TorchModules, Skipped, ModuleCall };

// The code of nn.Module._call_impl, kept for good; null where torch has none.
PyObject* module_call() {
  static PyObject* const code = [] {
    Ref found = Ref::steal(PyImport_ImportModule("torch.nn"));
    for (const char* name : {"Module", "_call_impl", "__code__"})
      if (found) found = Ref::steal(PyObject_GetAttrString(found.get(), name));
    if (!found) PyErr_Clear();
    return found.release();
  }();
  return code;
}

CodeOrigin origin_of(PyCodeObject* code) {
  if (reinterpret_cast<PyObject*>(code) == module_call()) return CodeOrigin::ModuleCall;
  const Packages& known = packages();
  std::string_view file = file_of(code);
  if (is_in(file, known.torch_nn)) return CodeOrigin::TorchModules;
  bool skipped = is_in(file, known.torch) || is_in(file, known.own) || file.starts_with("<frozen ");
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
  packages();
  module_call();
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

bool is_indexing(LanguageHooks::Place& place) {
  const Frame* frame = innermost_frame(PyThreadState_Get());
  if (!frame) return false;
  take_line(place, frame);
  const CodeReview& code = review_of(code_of(frame));
  return place.instruction >= 0 && is_subscription(decode(code, place.instruction));
}

bool places_are_tracked() { return tracking; }

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

#include "pystate/recorder.h"

#include <exception>

#include "base/error.h"
#include "pystate/attributes.h"
#include "pystate/calls.h"
#include "pystate/expected_code.h"
#include "pystate/opcodes.h"
#include "pystate/packages.h"
#include "pystate/user_lines.h"

namespace fulgurite::pystate {
namespace {

thread_local Recorder* active = nullptr;
uint64_t recordings = 0;  // changed with the GIL held

// The cyclic garbage collector would run finalizers of objects that are not of the program within
// it, as if the program called them. It is off while a thread records, and as it was afterwards.
// Changed with the GIL held.
int recording_threads = 0;
bool was_collecting = false;

void hold_garbage() {
  if (recording_threads++ == 0) was_collecting = PyGC_Disable();
}

void release_garbage() {
  if (--recording_threads == 0 && was_collecting) PyGC_Enable();
}

bool is_special_name(PyObject* name) {
  Py_ssize_t size = PyUnicode_GET_LENGTH(name);
  auto at = [name](Py_ssize_t index) { return PyUnicode_READ_CHAR(name, index); };
  return size > 4 && at(0) == '_' && at(1) == '_' && at(size - 1) == '_' && at(size - 2) == '_';
}

bool is_module_body(const Frame* frame) {
  PyCodeObject* code = code_of(frame);
  const Frame* caller = caller_of(frame);
  // A name that was read from a file of byte code is not interned.
  return !(code->co_flags & CO_OPTIMIZED) && caller &&
         PyUnicode_CompareWithASCIIString(code->co_name, "<module>") == 0 &&
         file_of(code_of(caller)).starts_with("<frozen importlib");
}

// The module's name, or the file of its code.
PyObject* imported_by(const Frame* frame) {
  PyObject* name = is_module_body(frame) ? nullptr : first_parameter(frame);
  return name ? name : code_of(frame)->co_filename;
}

const char* utf8(PyObject* string) {
  const char* text = PyUnicode_Check(string) ? PyUnicode_AsUTF8(string) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

}  // namespace

Recorder::Recorder(std::vector<Root> roots, const std::vector<PyObject*>& stand_ins,
                   ImpureSet raised, PyObject* error_type, ImportScope during_imports)
    : log(std::move(roots)),
      stand_ins_(stand_ins.begin(), stand_ins.end()),
      raised_(raised),
      error_type_(Ref::borrow(error_type)),
      during_imports_(std::move(during_imports)),
      id_(++recordings) {}

Recorder::~Recorder() {
  if (active == this) stop();
}

void Recorder::start() {
  if (active) user_error("this thread is being recorded already");
  previous_ = trace_function();
  outermost_ = innermost_frame(PyThreadState_Get());
  Py_XINCREF(previous_.argument);
  active = this;
  hold_garbage();
  // sys.gettrace() is to give what it gave before, so a debugger's object stays in its place.
  PyEval_SetTrace(trace, previous_.argument);
}

bool Recorder::stop() {
  if (active != this) return false;
  active = nullptr;
  plain_scripts_.reset();
  numbers_.settle(log);
  for (auto& [lock, held] : locks_)
    if (held)
      note(Impure::Outside,
           fmt::format("{} a {}", held > 0 ? "takes and keeps" : "gives back",
                       Py_TYPE(lock.get())->tp_name),
           false);
  if (log.found_argument_elsewhere)
    note(Impure::Identity,
         "finds a container among its arguments in another place, too (a global or an attribute); "
         "give it a copy",
         false);
  bool still_there = trace_function().function == trace;
  if (still_there) PyEval_SetTrace(previous_.function, previous_.argument);
  Py_CLEAR(previous_.argument);
  release_garbage();
  return still_there;
}

void Recorder::note(Impure kind, std::string what, bool preventable) {
  for (const Impurity& known : impurities)
    if (known.kind == kind && known.what == what) return;
  bool raises = preventable && (raised_ & only(kind));
  if (raises && !to_raise_)
    to_raise_ = Ref::steal(PyObject_CallFunction(
        error_type_.get(), "s",
        fmt::format("the function {}{}{}", what, at_line(log.here), caller_line(log.here))
            .c_str()));
  const Where where = kind == Impure::Message ? line_of_the_user(log.here) : log.here;
  impurities.push_back({kind, std::move(what), where, raises});
}

void Recorder::run_scripts_plainly(PyObject* function) {
  if (!plain_scripts_) plain_scripts_.emplace();
  Ref forgotten =
      Ref::steal(PyObject_CallMethod(function, "_debug_flush_compilation_cache", nullptr));
  if (!forgotten) PyErr_Clear();
}

// A trace function is not called while it runs.
Ref Recorder::call_outside(PyObject* callable, std::span<PyObject* const> arguments,
                           PyObject* keywords) {
  const std::shared_ptr<void> scope = during_imports_ ? during_imports_() : nullptr;
  const size_t named = keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0;
  Ref result = Ref::steal(
      PyObject_Vectorcall(callable, arguments.data(), arguments.size() - named, keywords));
  // What needs tensors of the program has to run as a part of it.
  if (result || PyErr_ExceptionMatches(error_type_.get())) {
    PyErr_Clear();
    return result;
  }
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  if (traceback) PyException_SetTraceback(error, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  to_raise_ = Ref::steal(error);
  note(Impure::Unreviewed,
       fmt::format("calls {}, which keeps no result when it raises", describe_callable(callable)),
       false);
  return result;
}

void Recorder::hold_lock(PyObject* lock, int change) {
  for (auto& [known, held] : locks_)
    if (known.get() == lock) return (void)(held += change);
  locks_.emplace_back(Ref::borrow(lock), change);
}

void Recorder::expect_fresh(const Instruction& at, PyTypeObject* type) {
  pending_.push_back({at.frame, at.next, type});
}

int Recorder::trace(PyObject*, PyFrameObject* frame, int what, PyObject* value) {
  Recorder* self = active;
  if (!self) return 0;
  if (int failed = self->forward(frame, what, value)) return failed;
  try {
    if (what == PyTrace_OPCODE) self->on_opcode(frame);
    if (what == PyTrace_CALL) self->on_call(frame);
    if (what == PyTrace_RETURN) self->on_return(frame, value);
  } catch (const std::exception& error) {
    self->impure(Impure::Unreviewed, error.what());
  }
  PyErr_Clear();
  if (!self->to_raise_ || what != PyTrace_OPCODE) return 0;
  const Ref raised = std::exchange(self->to_raise_, Ref());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.get())), raised.get());
  return -1;
}

int Recorder::forward(PyFrameObject* frame, int what, PyObject* value) {
  if (!previous_.function || what == PyTrace_OPCODE) return 0;
  return previous_.function(previous_.argument, frame, what, value);
}

const CodeReview& Recorder::review(PyCodeObject* code) {
  if (code == last_code_) return *last_review_;
  CodeReview& found = review_of(code);
  if (found.noted_by != id_) {
    found.noted_by = id_;
    codes_.push_back(Ref::borrow(reinterpret_cast<PyObject*>(code)));
    expect_code(code);
  }
  last_code_ = code;
  last_review_ = &found;
  return found;
}

// Whether the instructions of a frame are seen, or what it calls is the program itself.
bool Recorder::is_watched(const Frame* frame) const {
  if (frame == outermost_) return true;
  PyFrameObject* object = frame ? object_of(frame) : nullptr;
  return object && has_opcode_events(object);
}

void Recorder::on_call(PyFrameObject* object) {
  Frame* frame = frame_of(object);
  const CodeReview& known = review(code_of(frame));
  Treatment treatment = known.treatment;
  if (treatment == Treatment::Library)
    treatment = is_watched(caller_of(frame)) ? Treatment::Watched : Treatment::Exempt;
  bool watched = treatment == Treatment::Watched && !paused_by_;
  if (!previous_.function) set_line_events(object, false);
  set_opcode_events(object, watched);
  if (treatment == Treatment::Watched && is_module_body(frame)) treatment = Treatment::Import;
  if (treatment == Treatment::Import) begin_import(frame);
  if (paused_by_ || treatment == Treatment::Exempt) return;
  if (treatment == Treatment::Watched) {
    if (!known.function || !known.function->begin(*this, frame)) return enter(frame);
    running_ = known.function;
  }
  if (treatment == Treatment::Message)
    impure(Impure::Message, fmt::format("calls {}", utf8(code_of(frame)->co_qualname)));
  pause_until_return(object);
}

void Recorder::pause_until_return(PyFrameObject* object) {
  set_opcode_events(object, false);
  paused_by_ = frame_of(object);
  until_return_ = true;
}

// Either the search for a module, which has its name, or its code.
void Recorder::begin_import(const Frame* frame) {
  if (import_frame_) return;
  import_frame_ = frame;
  answers_before_import_ = abstract_answers();
  if (during_imports_) import_scope_ = during_imports_();
  if (!paused_by_) impure(Impure::Import, fmt::format("imports {}", utf8(imported_by(frame))));
}

// Modules register classes of their own with abstract classes. What the run asked before has the
// same answers then, and the next run starts from these registrations.
void Recorder::end_import() {
  import_frame_ = nullptr;
  import_scope_.reset();
  if (abstract_answers() != answers_before_import_) return;
  for (Location& location : log.locations())
    if (location.kind == Kind::Registrations && !location.key)
      location.entry = value_at(Kind::Registrations, location.container, nullptr);
}

std::vector<int> Recorder::abstract_answers() const {
  std::vector<int> answers;
  for (const auto& [type, abstract] : abstract_checks_)
    answers.push_back(PyObject_IsSubclass(type.get(), abstract.get()));
  PyErr_Clear();
  return answers;
}

void Recorder::note_abstract_check(PyObject* type, PyObject* abstract) {
  for (const auto& [known_type, known] : abstract_checks_)
    if (known_type.get() == type && known.get() == abstract) return;
  abstract_checks_.emplace_back(Ref::borrow(type), Ref::borrow(abstract));
}

void Recorder::enter(Frame* frame) {
  log.here = {code_of(frame), instruction_of(frame)};
  if (generator_of(frame)) enter_generator(frame);
  if (resumes(frame)) return;
  PyCodeObject* code = code_of(frame);
  if (code->co_flags & CO_VARKEYWORDS) {  // made by the call itself
    int index = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS);
    PyObject* keywords = locals_of(frame)[index];
    if (keywords && PyCell_Check(keywords)) keywords = PyCell_GET(keywords);
    if (keywords && PyDict_CheckExact(keywords)) log.add_fresh(keywords);
  }
  PyObject* names = mapping_of(frame);
  if (names && names != globals_of(frame) && !log.known(names)) log.add_fresh(names);
  if (code->co_argcount) {
    enter_initialiser(frame);
    if (entered_from_c(frame)) enter_from_c(frame);
  }
  if (PyFunctionObject* function = function_of(frame)) {
    find_in_closure(reinterpret_cast<PyObject*>(function), caller_of(frame));
    enter_function(reinterpret_cast<PyObject*>(function));
  }
}

// Decorators of torch (no_grad(), autocast()) call the function from code that is not watched.
void Recorder::find_in_closure(PyObject* function, const Frame* caller) {
  PyFunctionObject* decorator = caller ? function_of(caller) : nullptr;
  if (!decorator || !decorator->func_closure || log.known(function)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(decorator->func_closure); i++) {
    PyObject* cell = PyTuple_GET_ITEM(decorator->func_closure, i);
    if (PyCell_GET(cell) != function) continue;
    log.read_parts(reinterpret_cast<PyObject*>(decorator));
    log.read(Kind::Cell, cell);
  }
}

void Recorder::enter_generator(Frame* frame) {
  bool ours = resumes(frame) ? generators_.count(frame) != 0 : !log.is_old(generator_of(frame));
  if (!ours)
    // An error raised now would end the generator.
    note(Impure::Iterator,
         fmt::format("goes on with the generator {}(), which was made before",
                     utf8(code_of(frame)->co_name)),
         false);
  generators_.insert(frame);
}

// The object that a type's call is making is new before its __init__ ends.
void Recorder::enter_initialiser(Frame* frame) {
  PyObject* self = first_parameter(frame);
  if (pending_.empty() || !self) return;
  const Pending& making = pending_.back();
  if (making.type && making.frame == caller_of(frame) && Py_TYPE(self) == making.type)
    add_made(self);
}

// The log keeps the object longer than the program does, and the next run makes none.
void Recorder::add_made(PyObject* object) {
  static PyObject* const finalizer = interned("__del__");
  PyTypeObject* type = Py_TYPE(object);
  if (is_heap_type(type) && type_lookup(type, finalizer))
    impure(Impure::Unreviewed,
           fmt::format("makes an object of {}, a class with a __del__", type->tp_name));
  log.add_fresh(object);
}

// C code calls special methods that no instruction names.
void Recorder::enter_from_c(Frame* frame) {
  PyObject* self = first_parameter(frame);
  PyObject* name = code_of(frame)->co_name;
  if (self && is_special_name(name)) read_type(*this, Py_TYPE(self), name);
}

void Recorder::enter_function(PyObject* function) {
  static PyObject* const first_part = PyLong_FromLong(0);
  PyObject* key = log.canonical_key(first_part);
  if (log.is_fresh(function) || log.find(Kind::Part, function, key) != kUnknown) return;
  log.read(Kind::Function, function);
  log.read_parts(function);
  if (PyObject* defaults = PyFunction_GET_KW_DEFAULTS(function)) log.read(Kind::Contents, defaults);
}

void Recorder::on_opcode(PyFrameObject* object) {
  Frame* frame = frame_of(object);
  PyCodeObject* code = code_of(frame);
  const CodeReview& known = review(code);
  int index = instruction_of(frame);
  if (index < 0 || index >= known.count) return;
  PyObject** end = stack_end(frame);
  while (!pending_.empty() && pending_.back().frame == frame) {
    Pending made = pending_.back();
    pending_.pop_back();
    if (made.next == index && (!made.type || Py_TYPE(end[-1]) == made.type)) add_made(end[-1]);
  }
  if (paused_by_) {
    if (until_return_ || paused_by_ != frame) return;
    paused_by_ = nullptr;
  }
  log.here = {code, index};
  auto [opcode, argument, next] = decode(known, index);
  Instruction at{frame, code, opcode, argument, next, end};
  current = &at;
  if (known.number_uses.empty()) [[likely]]
    observe(*this, at);
  else
    numbers_.observe(*this, known, at, index);
  current = nullptr;
}

void Recorder::on_return(PyFrameObject* object, PyObject*) {
  Frame* frame = frame_of(object);
  set_opcode_events(object, false);
  if (!previous_.function) set_line_events(object, true);
  while (!pending_.empty() && pending_.back().frame == frame) pending_.pop_back();
  if (paused_by_ == frame) {
    paused_by_ = nullptr;
    until_return_ = false;
    const ReviewedFunction* ended = std::exchange(running_, nullptr);
    if (ended && ended->finish) ended->finish(*this, frame);
  }
  if (import_frame_ == frame) end_import();
}

}  // namespace fulgurite::pystate

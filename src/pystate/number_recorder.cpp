#include "pystate/number_recorder.h"

#include <opcode.h>

#include <algorithm>

#include "pystate/opcodes.h"
#include "pystate/recorder.h"

namespace fulgurite::pystate {
namespace {

// torch.nn.Module.__setattr__ looks at the class of a value, but not at the value.
bool is_setter_of_modules(PyObject* setter) {
  static PyObject* const known = [] {
    Ref modules = Ref::steal(PyImport_ImportModule("torch.nn"));
    Ref type = Ref::steal(modules ? PyObject_GetAttrString(modules.get(), "Module") : nullptr);
    PyErr_Clear();
    return type ? type_lookup(reinterpret_cast<PyTypeObject*>(type.get()), interned("__setattr__"))
                : nullptr;
  }();
  return known && setter == known;
}

// Whether loading an item, or storing it, runs no code of the program.
bool has_plain_items(PyObject* container) {
  return PyDict_CheckExact(container) || PyList_CheckExact(container);
}

// Whether storing runs no code that could look at the value.
bool stores_plainly(const Instruction& at) {
  static PyObject* const setter_name = interned("__setattr__");
  if (at.opcode == STORE_SUBSCR) return has_plain_items(at.top(1));
  if (at.opcode != STORE_ATTR) return true;
  PyTypeObject* type = Py_TYPE(at.top());
  PyObject* descriptor = type_lookup(type, at.name(at.argument));
  const bool sets = descriptor && Py_TYPE(descriptor)->tp_descr_set;
  if (sets && Py_TYPE(descriptor) != &PyMemberDescr_Type) return false;
  return type->tp_setattro == PyObject_GenericSetAttr ||
         is_setter_of_modules(type_lookup(type, setter_name));
}

PyObject* value_to_store(const Instruction& at) {
  if (at.opcode == STORE_SUBSCR) return at.top(2);
  return at.top(at.opcode == STORE_ATTR ? 1 : 0);
}

// Whether the operator raises no error for any number.
bool is_total(const Operator& applied, PyObject* operand) {
  const bool divides = applied.kind == Arithmetic::Divide ||
                       applied.kind == Arithmetic::FloorDivide ||
                       applied.kind == Arithmetic::Remainder;
  if (!divides) return true;
  return !applied.swapped && is_plain_number(operand) && PyObject_IsTrue(operand) == 1;
}

}  // namespace

NumberRecorder::Place NumberRecorder::find(const Frame* frame, const NumberUse& use) {
  return std::ranges::find_if(
      running_, [&](const Running& one) { return one.frame == frame && one.use == &use; });
}

void NumberRecorder::give_up(Log& log, Place running) {
  log.need_value(running->place);
  running_.erase(running);
}

void NumberRecorder::observe(Recorder& recorder, const CodeReview& code, const Instruction& at,
                             int index) {
  finish_store(recorder.log, at.frame);
  for (const NumberUse& use : code.number_uses) {
    if (index == use.load) return load(recorder, at, use);
    const Place running = find(at.frame, use);
    if (running == running_.end()) continue;
    for (const Operator& one : use.operators)
      if (index == one.index) operate(recorder.log, at, running, one);
    if (index == use.end) end(recorder.log, at, running);
  }
  pystate::observe(recorder, at);
}

void NumberRecorder::load(Recorder& recorder, const Instruction& at, const NumberUse& use) {
  Log& log = recorder.log;
  // One that an exception left.
  if (const Place old = find(at.frame, use); old != running_.end()) running_.erase(old);
  log.number_only = at.opcode != BINARY_SUBSCR || has_plain_items(at.top(1));
  log.number_place = kUnknown;
  pystate::observe(recorder, at);
  log.number_only = false;
  if (log.number_place == kUnknown) return;
  const size_t updates = log.locations()[static_cast<size_t>(log.number_place)].updates.size();
  PyObject* object = at.opcode == LOAD_ATTR ? at.top() : nullptr;
  running_.push_back({at.frame, &use, log.number_place, object, updates, {}, Ref()});
}

void NumberRecorder::operate(Log& log, const Instruction& at, Place running,
                             const Operator& applied) {
  PyObject* given = at.top(applied.swapped ? 1 : 0);
  Ref operand;
  if (is_plain_number(given)) operand = Ref::borrow(given);
  if (is_number_of_run(given)) operand = tensor_of_number(given);
  PyErr_Clear();
  if (!operand || !is_total(applied, operand.get())) return give_up(log, running);
  running->operations.push_back({applied.kind, applied.swapped, std::move(operand)});
}

void NumberRecorder::end(Log& log, const Instruction& at, Place running) {
  const auto& place = log.locations()[static_cast<size_t>(running->place)];
  // What came between may have updated the place, too: that update was for another number.
  const bool complete = running->operations.size() == running->use->operators.size() &&
                        running->updates == place.updates.size();
  const bool same_object = at.opcode != STORE_ATTR || at.top() == running->object;
  if (complete && running->use->stores && same_object && stores_plainly(at)) {
    running->result = Ref::borrow(value_to_store(at));
    log.storing_number = running->place;
    log.has_stored_number = false;
    return;
  }
  if (!complete || running->use->stores || !ask(log, at, *running)) return give_up(log, running);
  running_.erase(running);
}

bool NumberRecorder::ask(Log& log, const Instruction& at, const Running& running) {
  const NumberUse& use = *running.use;
  const bool compares = use.comparison != kTruth;
  PyObject* number = at.top(compares && !use.swapped ? 1 : 0);
  PyObject* operand = compares ? at.top(use.swapped ? 1 : 0) : nullptr;
  if (!is_plain_number(number) || (operand && !is_finite_number(operand))) return false;
  Question question{{}, use.comparison, use.swapped, Ref::borrow(operand), true};
  question.answer = has_same_answer(question, number);
  question.operations = running.operations;
  return log.add_question(running.place, std::move(question));
}

void NumberRecorder::finish_store(Log& log, const Frame* frame) {
  const Place stored = std::ranges::find_if(
      running_, [&](const Running& one) { return one.frame == frame && one.result; });
  if (stored == running_.end()) return;
  log.end_update(stored->place, stored->result.get(), std::move(stored->operations));
  running_.erase(stored);
}

void NumberRecorder::settle(Log& log) {
  for (const Running& one : running_)
    if (one.result) log.need_value(one.place);
  running_.clear();
}

}  // namespace fulgurite::pystate

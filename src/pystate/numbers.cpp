#include "pystate/numbers.h"

#include <fmt/format.h>

#include <cmath>

#include "pystate/facts.h"
#include "pystate/interpreter.h"
#include "pystate/values.h"

namespace fulgurite::pystate {
namespace {

std::string text_of_pair(std::string number, std::string_view symbol, std::string other,
                         bool swapped) {
  if (swapped) std::swap(number, other);
  return fmt::format("{} {} {}", number, symbol, other);
}

std::string text_of_operand(PyObject* operand) {
  return is_tensor(operand) ? "number" : short_repr(operand);
}

}  // namespace

bool is_plain_number(PyObject* object) {
  return PyLong_CheckExact(object) || PyFloat_CheckExact(object);
}

bool is_finite_number(PyObject* object) {
  return PyLong_CheckExact(object) ||
         (PyFloat_CheckExact(object) && std::isfinite(PyFloat_AS_DOUBLE(object)));
}

PyObject* what_it_stands_for(PyObject* object) {
  static PyObject* const mark = interned("_fulgurite_stands_for");
  PyTypeObject* type = Py_TYPE(object);
  return is_heap_type(type) ? type_lookup(type, mark) : nullptr;
}

bool is_number_of_run(PyObject* object) { return what_it_stands_for(object); }

Ref tensor_of_number(PyObject* number) {
  return Ref::steal(PyObject_CallMethod(number, "value", nullptr));
}

Ref apply(Arithmetic kind, bool swapped, PyObject* number, PyObject* operand) {
  using Function = PyObject* (*)(PyObject*, PyObject*);
  constexpr Function kFunctions[] = {PyNumber_Add,        PyNumber_Subtract,    PyNumber_Multiply,
                                     PyNumber_TrueDivide, PyNumber_FloorDivide, PyNumber_Remainder};
  const Function function = kFunctions[static_cast<size_t>(kind)];
  return Ref::steal(swapped ? function(operand, number) : function(number, operand));
}

bool has_same_answer(const Question& question, PyObject* number) {
  Ref result = Ref::borrow(number);
  for (const Operation& one : question.operations)
    if (result) result = apply(one.kind, one.swapped, result.get(), one.operand.get());
  int answer = -1;
  if (result && question.comparison == kTruth) {
    answer = PyObject_IsTrue(result.get());
  } else if (result) {
    PyObject *a = result.get(), *b = question.operand.get();
    if (question.swapped) std::swap(a, b);
    const Ref compared = Ref::steal(PyObject_RichCompare(a, b, question.comparison));
    answer = compared ? PyObject_IsTrue(compared.get()) : -1;
  }
  if (answer < 0) PyErr_Clear();
  return answer == static_cast<int>(question.answer);
}

std::string text_of(std::span<const Operation> operations, const std::string& place) {
  std::string text = place;
  for (const auto& [kind, swapped, operand] : operations) {
    if (text != place) text = "(" + text + ")";
    text = text_of_pair(text, text_of(kind), text_of_operand(operand.get()), swapped);
  }
  return text;
}

std::string text_of(const Question& question, const std::string& place) {
  std::string text = text_of(question.operations, place);
  if (question.comparison == kTruth) return "bool(" + text + ")";
  if (!question.operations.empty()) text = "(" + text + ")";
  return text_of_pair(text, text_of_comparison(question.comparison),
                      text_of_operand(question.operand.get()), question.swapped);
}

}  // namespace fulgurite::pystate

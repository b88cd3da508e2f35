// Numbers in the state of Python that a program computes with and does not look at otherwise.
//
// Counters and running sums are another number in each call. Where the number goes into arithmetic
// whose result is stored in the same place, a later run does the same with what it finds there;
// where the result is compared, the answer is what has to be the same. Beside that only the type of
// the number is a fact to be checked. Wherever the program uses the number in another way, too, the
// number itself is a fact like any other.
#pragma once

#include <Python.h>

#include <span>
#include <string>
#include <vector>

#include "pystate/number_uses.h"
#include "pystate/ref.h"

namespace fulgurite::pystate {

struct Operation {
  Arithmetic kind;
  bool swapped;  // the number is the second operand
  Ref operand;   // the other one: a number, or the tensor of the run that has it
};

struct Question {
  std::vector<Operation> operations;  // on the number at first; without tensors
  int comparison;                     // or kTruth
  bool swapped;
  Ref operand;  // what the result is compared with, a number
  bool answer;
};

// An int or a float, and of no class of the program.
bool is_plain_number(PyObject* object);
bool is_finite_number(PyObject* object);
// A number that stands for one in a tensor of the run (python/fulgurite/_numbers.py), and the
// tensor; empty with a Python error set where it cannot be had.
bool is_number_of_run(PyObject* object);
// What an object that the capture gave to the program stands for, in words; null for others.
PyObject* what_it_stands_for(PyObject* object);
Ref tensor_of_number(PyObject* number);

// Empty with a Python error set where Python raises one.
Ref apply(Arithmetic kind, bool swapped, PyObject* number, PyObject* operand);
// Whether the question has the same answer for this number; runs no code of the program.
bool has_same_answer(const Question& question, PyObject* number);

// "(model.calls + 1) % 10"; tensors are "number".
std::string text_of(std::span<const Operation> operations, const std::string& place);
std::string text_of(const Question& question, const std::string& place);

}  // namespace fulgurite::pystate

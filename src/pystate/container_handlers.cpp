// Methods of builtin containers.
#include <vector>

#include "pystate/attributes.h"
#include "pystate/call_handlers.h"
#include "pystate/containers.h"
#include "pystate/recorder.h"

namespace fulgurite::pystate::handlers {
namespace {

constexpr Py_ssize_t kMostKeysOneByOne = 64;

void read_arguments(Recorder& recorder, const Call& call) {
  for (PyObject* argument : call.arguments) {
    read_specials(recorder, argument);
    if (Py_TYPE(argument)->tp_iternext) advance(recorder, argument);
    if (PyCallable_Check(argument)) read_callable(recorder, argument);
    read_contents(recorder, argument);
  }
}

bool has_plain_keys(Recorder& recorder, PyObject* dict) {
  if (!PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) > kMostKeysOneByOne) return false;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
    if (!recorder.log.canonical_key(key)) return false;
  return true;
}

}  // namespace

void appends(Recorder& recorder, const Call& call) {
  if (!PyList_Check(call.self)) return changes(recorder, call);
  read_arguments(recorder, call);
  recorder.log.append(call.self);
}

void appends_one(Recorder& recorder, const Call& call) {
  if (PyList_Check(call.self)) return recorder.log.append(call.self);
  write_contents(recorder, call.self);
}

void changes(Recorder& recorder, const Call& call) {
  read_arguments(recorder, call);
  write_contents(recorder, call.self);
}

void clears(Recorder& recorder, const Call& call) { clear_contents(recorder, call.self); }

void gets_item(Recorder& recorder, const Call& call) {
  if (!call.arguments.empty()) read_item(recorder, call.self, call.arguments[0]);
}

void sets_item(Recorder& recorder, const Call& call) {
  if (!call.arguments.empty()) write_item(recorder, call.self, call.arguments[0]);
}

void deletes_item(Recorder& recorder, const Call& call) {
  if (!call.arguments.empty()) delete_item(recorder, call.self, call.arguments[0]);
}

void gets_key(Recorder& recorder, const Call& call) {
  if (!call.arguments.empty()) read_key(recorder, call.self, call.arguments[0]);
}

void sets_key(Recorder& recorder, const Call& call) {
  if (!call.arguments.empty()) write_key(recorder, call.self, call.arguments[0]);
}

void removes_key(Recorder& recorder, const Call& call) {
  if (!call.arguments.empty()) remove_key(recorder, call.self, call.arguments[0]);
}

void gets_or_sets_key(Recorder& recorder, const Call& call) {
  gets_key(recorder, call);
  sets_key(recorder, call);
}

void updates(Recorder& recorder, const Call& call) {
  read_arguments(recorder, call);
  size_t positional = call.positional();
  bool one_by_one = true;
  for (size_t i = 0; i < positional; i++)
    one_by_one = one_by_one && has_plain_keys(recorder, call.arguments[i]);
  if (!one_by_one) return write_contents(recorder, call.self);
  for (size_t i = 0; i < positional; i++) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(call.arguments[i], &at, &key, &value);)
      write_key(recorder, call.self, key);
  }
  for (size_t i = positional; i < call.arguments.size(); i++)
    write_key(recorder, call.self,
              PyTuple_GET_ITEM(call.keywords, static_cast<Py_ssize_t>(i - positional)));
}

void changes_member(Recorder& recorder, const Call& call) {
  if (call.arguments.empty()) return;
  read_specials(recorder, call.arguments[0]);
  refuse_stand_in(recorder, call.self, call.arguments[0]);
  PyObject* key = recorder.log.canonical_key(call.arguments[0]);
  if (!key) return write_contents(recorder, call.self);
  recorder.log.read(Kind::Member, call.self, key);
  recorder.log.write(Kind::Member, call.self, key);
}

void checks_member(Recorder& recorder, const Call& call) {
  if (!call.arguments.empty()) read_membership(recorder, call.self, call.arguments[0]);
}

void mutates_first(Recorder& recorder, const Call& call) {
  if (call.arguments.empty()) return;
  for (PyObject* argument : call.arguments) read_deeply(recorder, argument);
  write_contents(recorder, call.arguments[0]);
}

}  // namespace fulgurite::pystate::handlers

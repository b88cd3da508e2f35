#include <algorithm>
#include <vector>

#include "pystate/effects.h"
#include "pystate/interpreter.h"

namespace fulgurite::pystate {
namespace {

bool truncate(PyObject* list, PyObject* size) {
  return PyList_SetSlice(list, PyLong_AsSsize_t(size), PyList_GET_SIZE(list), nullptr) == 0;
}

bool undo_one(const Location& location) {
  if (location.kind == Kind::ContextVar) return true;  // all at once
  if (location.kind == Kind::Appended) return truncate(location.container, location.entry.get());
  Ref now = value_at(location.kind, location.container, location.key.get());
  if (same_value(location.kind, location.entry.get(), now.get())) return true;
  return store(location.kind, location.container, location.key.get(), location.entry.get());
}

// The keys of a dict, of which one was removed and put back, in their old order again.
bool restore_order(const Log& log, PyObject* dict) {
  PyObject* first = log.first_contents(dict);
  Ref now = contents_of(dict);
  if (!first || !now || PyTuple_GET_SIZE(first) != PyTuple_GET_SIZE(now.get())) return true;
  bool same_order = true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(first); i += 2) {
    PyObject* key = PyTuple_GET_ITEM(first, i);
    same_order = same_order && key == PyTuple_GET_ITEM(now.get(), i);
    if (!PyDict_GetItemWithError(dict, key)) return true;
  }
  return same_order || store(Kind::Contents, dict, nullptr, first);
}

}  // namespace

bool undo(const Log& log, PyObject* context) {
  std::vector<const Location*> written;
  for (const Location& location : log.locations())
    if (location.written && !log.is_rewritten(location)) written.push_back(&location);
  std::sort(written.begin(), written.end(),
            [](const Location* a, const Location* b) { return a->order > b->order; });
  bool complete = true;
  for (const Location* location : written) complete = undo_one(*location) && complete;
  for (const Location* location : written)
    if (location->kind == Kind::Key) complete = restore_order(log, location->container) && complete;
  if (context) restore_context_state(context);
  PyErr_Clear();
  return complete;
}

}  // namespace fulgurite::pystate

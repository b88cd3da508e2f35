// The end of a record: what is let go of, and what is guarded in hindsight.
#include <vector>

#include "pystate/log.h"

namespace fulgurite::pystate {

void Log::settle() {
  auto is_dropped = [&](const Location& location) {
    const Known* about = known(location.container);
    return !about || about->age == Age::Fresh;
  };
  auto only_here = [&](PyObject* object, const Known& known) {
    bool found = known.root >= 0 || (known.origin != kUnknown &&
                                     !is_dropped(locations_[static_cast<size_t>(known.origin)]));
    return Py_REFCNT(object) == 1 && !(known.age != Age::Fresh && found);
  };
  for (bool again = true; again;) {
    std::vector<PyObject*> leaving;
    for (auto& [object, known] : known_)
      if (only_here(object, known)) leaving.push_back(object);
    // An address may be used again, so what is known of it goes before the object does.
    for (PyObject* object : leaving) known_.erase(object);
    for (Location& location : locations_) {
      if (!is_dropped(location)) continue;
      location.read = location.written = false;
      location.entry = Ref();
    }
    for (PyObject* object : leaving) Py_DECREF(object);
    again = !leaving.empty();
  }
  for (Location& location : locations_)
    if (location.written && location.kind == Kind::Slot && is_tensor(location.container))
      location.last = value_at(location.kind, location.container, location.key.get());
  guard_unchanged();
}

// A write that changed nothing has no effect only while the place holds the same before it.
void Log::guard_unchanged() {
  for (Location& location : locations_) {
    const Known* about = known(location.container);
    if (!location.written || location.read || is_rewritten(location) || !about ||
        about->age != Age::Old || location.kind == Kind::Appended)
      continue;
    const Ref now = value_at(location.kind, location.container, location.key.get());
    location.read = same_value(location.kind, location.entry.get(), now.get());
  }
}

}  // namespace fulgurite::pystate

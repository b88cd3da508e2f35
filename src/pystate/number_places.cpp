// What a record keeps of numbers that the run only computes with.
#include <algorithm>
#include <iterator>

#include "pystate/interpreter.h"
#include "pystate/log.h"

namespace fulgurite::pystate {
namespace {

constexpr size_t kMostQuestions = 16;  // of one number

}  // namespace

bool Log::note_number(LocationId id) {
  Location& location = locations_[id];
  const bool one_place = location.kind == Kind::Key || location.kind == Kind::Item ||
                         location.kind == Kind::Cell ||
                         variable_at(location.kind, location.container, location.key.get());
  PyObject* first = location.entry.get();
  if (!one_place || location.read || (location.written && !location.only_updates) || !first ||
      !is_plain_number(first))
    return false;
  location.by_type = location.only_updates = true;
  number_place = id;
  return true;
}

void Log::end_update(LocationId place, PyObject* result, std::vector<Operation> updates) {
  storing_number = kUnknown;
  Location& location = locations_[place];
  const Ref now = value_at(location.kind, location.container, location.key.get());
  if (!location.only_updates || !has_stored_number || now.get() != result) return need_value(place);
  std::ranges::move(updates, std::back_inserter(location.updates));
}

bool Log::add_question(LocationId place, Question question) {
  Location& location = locations_[place];
  std::vector<Operation> all = location.updates;
  std::ranges::move(question.operations, std::back_inserter(all));
  const bool known = std::ranges::all_of(
      all, [](const Operation& one) { return is_finite_number(one.operand.get()); });
  if (!location.only_updates || !known || location.questions.size() >= kMostQuestions) return false;
  question.operations = std::move(all);
  location.questions.push_back(std::move(question));
  return true;
}

void Log::need_value(LocationId place) { locations_[place].read = true; }

}  // namespace fulgurite::pystate

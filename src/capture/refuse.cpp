// Errors in the form of the program's language.
#include "capture/origins.h"
#include "capture/state.h"

namespace fulgurite {
namespace {
LanguageHooks hooks;
}  // namespace

void set_language_hooks(const LanguageHooks& given) { hooks = given; }
const LanguageHooks& language_hooks() { return hooks; }

void without_language_lock(const std::function<void()>& work) {
  if (hooks.unlocked)
    hooks.unlocked(work);
  else
    work();
}

void raise(const Unsupported& error) {
  const Origins* origins = Origins::active();
  if (hooks.raise && (!origins || origins->in_language())) hooks.raise(error);
  throw error;
}

Unsupported refusal_of(const std::string& what, const std::string& instead) {
  std::string text = what;
  LanguageHooks::Place place;
  if (!Origins::active() && hooks.place && hooks.source && hooks.place(place) && place.code) {
    const SourceLine line = hooks.source(place);
    text += fmt::format("\n  at {}:{} in {}", line.file, line.line, line.function);
    if (!line.code.empty()) text += fmt::format(": {}", line.code);
  }
  return Unsupported(text + "\n  instead: " + instead);
}

void Tracer::refuse(const std::string& what, const std::string& instead) {
  const Unsupported error = refusal_of(what, instead);
  if (!state_->refusal) state_->refusal = error;
  raise(error);
}

}  // namespace fulgurite

// The lines and modules of the program that is being captured, as the capture asks for them.
#pragma once

#include <functional>
#include <string>

#include "capture/tracer.h"

namespace fulgurite {

// Where the program is: see pystate/place.h.
bool current_place(LanguageHooks::Place& place) noexcept;

// As given when the tracking of this thread was made: "self.layers.0"; "" for any other module.
std::string module_path(const LanguageHooks::Place& place);

// The check of data that the innermost Python function makes; see LanguageHooks::check.
bool find_data_check(std::string& error);

// See LanguageHooks::indexes.
bool is_indexing(LanguageHooks::Place& place);

// See LanguageHooks::unlocked.
void run_unlocked(const std::function<void()>& work);

// The line of a place; may be called without the interpreter lock.
SourceLine source_line(const LanguageHooks::Place& place);

}  // namespace fulgurite

// The two families of errors, and how they are raised.
//
// A `UserError` is about the user's program, arguments or options: its text says what came, what
// was expected and what to do. An `InternalError` is a fault of ours. Nothing else is thrown.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace fulgurite {

class UserError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The program cannot be compiled soundly: it needs the data of a traced tensor, say.
class Unsupported : public UserError {
  using UserError::UserError;
};

class InternalError : public std::logic_error {
  using std::logic_error::logic_error;
};

template <class... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> text, Args&&... args) {
  throw UserError(fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void internal_error(fmt::format_string<Args...> text, Args&&... args) {
  throw InternalError(fmt::format(text, std::forward<Args>(args)...));
}

// An invariant of ours; `text` names it.
template <class... Args>
void require(bool holds, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds) [[unlikely]]
    internal_error(text, std::forward<Args>(args)...);
}

}  // namespace fulgurite

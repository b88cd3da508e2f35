#include "pystate/user_lines.h"

#include <fmt/format.h>

#include "pystate/interpreter.h"
#include "pystate/packages.h"

namespace fulgurite::pystate {
namespace {

enum class Writer : uint8_t { User, Package, Library };  // Library: Python, torch and this package

Writer writer_of(PyCodeObject* code) {
  std::string_view file = file_of(code);
  if (is_in(file, packages().torch) || is_in(file, packages().own) || file.starts_with("<frozen"))
    return Writer::Library;
  for (std::string_view packages : {"/site-packages/", "/dist-packages/"})
    if (file.find(packages) != file.npos) return Writer::Package;
  return is_in(file, packages().library) ? Writer::Library : Writer::User;
}

}  // namespace

std::string at_line(const Where& where) {
  if (!where.code) return "";
  return fmt::format("\n  at {}:{}", file_of(where.code),
                     PyCode_Addr2Line(where.code, where.instruction * 2));
}

Where line_of_the_user(const Where& innermost) {
  if (!innermost.code) return innermost;
  for (Writer wanted : {Writer::User, Writer::Package}) {
    if (writer_of(innermost.code) == wanted) return innermost;
    for (const Frame* frame = innermost_frame(PyThreadState_Get()); frame; frame = caller_of(frame))
      if (writer_of(code_of(frame)) == wanted) return {code_of(frame), instruction_of(frame)};
  }
  return innermost;
}

std::string caller_line(const Where& innermost) {
  const Where user = line_of_the_user(innermost);
  if (user.code == innermost.code) return "";
  return fmt::format("\n  called at {}:{}", file_of(user.code),
                     PyCode_Addr2Line(user.code, user.instruction * 2));
}

}  // namespace fulgurite::pystate

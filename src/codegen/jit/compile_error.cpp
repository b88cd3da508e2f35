#include "codegen/jit/compile_error.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

namespace fulgurite {
namespace {

constexpr int kLinesAround = 4;

// Zero where the messages name none.
int first_error_line(std::string_view messages) {
  const std::string mark = std::string(kKernelFileName) + ":";
  const size_t at = messages.find(mark);
  if (at == std::string_view::npos) return 0;
  int line = 0;
  std::from_chars(messages.data() + at + mark.size(), messages.data() + messages.size(), line);
  return line;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::string describe_compile_error(std::string_view text, std::string_view messages) {
  std::string description = fmt::format("a kernel does not compile:\n{}", messages);
  const std::vector<std::string_view> lines = lines_of(text);
  const int wrong = first_error_line(messages);
  if (wrong == 0) return description;
  const int first = std::max(1, wrong - kLinesAround);
  const int last = std::min<int>(static_cast<int>(lines.size()), wrong + kLinesAround);
  for (int line = first; line <= last; ++line)
    description += fmt::format("\n{} {:5} | {}", line == wrong ? ">" : " ", line, lines[line - 1]);
  return description;
}

}  // namespace fulgurite

#include "codegen/loops/prelude/prelude.h"

#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/loops/prelude/families.h"

namespace fulgurite {
namespace {

struct Element {
  std::string_view name, type;
  int bytes;
};

constexpr Element kElements[] = {
    {"i8", "signed char", 1},     {"u8", "unsigned char", 1}, {"i16", "short", 2},
    {"u16", "unsigned short", 2}, {"i32", "int", 4},          {"u32", "unsigned", 4},
    {"i64", "long", 8},           {"f32", "float", 4},        {"f64", "double", 8}};

// The type of a vector, its constants, and how it is read and written.
std::string type_text(const Element& element, bool split) {
  const std::string read = fmt::format("*(const {}u*)p", element.name);
  return fmt::format(R"(
typedef {1} {0}v __attribute__((vector_size({2} * L)));
typedef {0}v {0}u __attribute__((aligned({2}), may_alias));
INL {0}v {0}({1} x) {{ return x - {0}v{{}}; }}
INL {0}v load(const {1}* p) {{ return {3}; }}
INL void store({1}* p, {0}v x) {{ *({0}u*)p = {4}; }}
INL {0}v splat(const {1}* p) {{ return {0}(*p); }}
)",
                     element.name, element.type, element.bytes,
                     split ? fmt::format("SPLIT({})", read) : read, split ? "JOINED(x)" : "x");
}

}  // namespace

const PreludePiece* find_piece(std::string_view name, int sixteens, bool split) {
  const PreludePiece* found = nullptr;
  for (auto family :
       {prelude::exponentials, prelude::logarithms, prelude::trigonometry, prelude::error_functions,
        prelude::memory, prelude::guarded_reads, prelude::narrow_floats})
    for (const PreludePiece& piece : family)
      if (piece.name == name && piece.sixteens <= sixteens && piece.split <= split &&
          (!found ||
           std::pair(piece.split, piece.sixteens) > std::pair(found->split, found->sixteens)))
        found = &piece;
  return found;
}

bool Prelude::use(std::string_view name) {
  if (used_.contains(name)) return true;
  for (const Element& element : kElements)
    if (element.name == name) return append(name, type_text(element, split_)), true;
  const PreludePiece* piece = find_piece(name, sixteens_, split_);
  if (!piece) return false;
  for (std::string_view rest = piece->needs; !rest.empty();) {
    const size_t space = rest.find(' ');
    const std::string_view need = rest.substr(0, space);
    require(use(need), "no piece of the prelude is called {}", need);
    rest = space == std::string_view::npos ? "" : rest.substr(space + 1);
  }
  append(name, std::string(piece->text));
  return true;
}

void Prelude::append(std::string_view name, std::string text) {
  if (!used_.emplace(name).second) return;
  text_ += text;
}

}  // namespace fulgurite

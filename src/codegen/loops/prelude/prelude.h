// The functions that printed kernels may use, as pieces of C++ text. A kernel's text holds those
// that it uses and no others: the compiler's time goes with the text.
//
// Vectors have L lanes, whatever their element: f32v, f64v, i8v, u8v, i16v, i32v, i64v; `mask` has
// all bits set in a lane that is true. The pieces come as given for 64-byte vectors (AVX-512), or
// in a portable form.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace fulgurite {

struct PreludePiece {
  std::string_view name;
  std::string_view needs;  // names of other pieces, with spaces between
  std::string_view text;
  bool avx512 = false;  // for 16 floats of AVX-512 only; preferred there
};

// The piece of that name, or null.
const PreludePiece* find_piece(std::string_view name, bool avx512);

// Pieces with all that they need, each once and after what it needs.
class Prelude {
 public:
  Prelude(int vector_bytes, int lanes) : avx512_(vector_bytes == 64 && lanes == 16) {}
  // Adds it, once. Whether there is such a piece.
  bool use(std::string_view name);
  void append(std::string_view name, std::string text);
  const std::string& text() const { return text_; }

 private:
  bool avx512_;
  std::set<std::string, std::less<>> used_;
  std::string text_;
};

}  // namespace fulgurite

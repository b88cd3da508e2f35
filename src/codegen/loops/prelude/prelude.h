// The functions that printed kernels may use, as pieces of C++ text. A kernel's text holds those
// that it uses and no others: the compiler's time goes with the text.
//
// Vectors have L lanes, whatever their element: f32v, f64v, i8v, u8v, i16v, i32v, i64v; `mask` has
// all bits set in a lane that is true. The pieces come as given for AVX-512, or in a portable form.
//
// Split lanes: the first half of the lanes holds the elements of even places in memory, the second
// half those of odd ones, so that a bfloat16 is widened by a shift or a mask, without moving lanes.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace fulgurite {

struct PreludePiece {
  std::string_view name;
  std::string_view needs;  // names of other pieces, with spaces between
  std::string_view text;
  int sixteens = 0;    // not 0: for AVX-512 and vectors of at least so many times 16 floats
  bool split = false;  // for split lanes alone
};

// The most special piece of that name for vectors of so many times 16 floats, or null. 0: without
// AVX-512.
const PreludePiece* find_piece(std::string_view name, int sixteens, bool split = false);

// Pieces with all that they need, each once and after what it needs.
class Prelude {
 public:
  // Of vectors of so many times 16 floats of AVX-512; 0: of any other.
  Prelude(int sixteens, bool split) : sixteens_(sixteens), split_(split) {}
  // Adds it, once. Whether there is such a piece.
  bool use(std::string_view name);
  void append(std::string_view name, std::string text);
  const std::string& text() const { return text_; }

 private:
  int sixteens_;
  bool split_;
  std::set<std::string, std::less<>> used_;
  std::string text_;
};

}  // namespace fulgurite

// Loop programs: what one generated kernel computes, without saying on what machine.
//
// A nest of loops over a domain; at each place some tensors are read, scalar statements are
// computed, and results are written. With reductions, the innermost `reduced` dimensions are gone
// through in passes, one per level of dependence between reductions, and once more to write.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>

#include "ir/types.h"
#include "ops/row_rule.h"
#include "ops/scalar.h"

namespace fulgurite {

// Of a row up to here.
inline bool is_running(Prim prim) {
  return prim == Prim::RunningSum || prim == Prim::RunningProduct;
}

// One tensor as the loop reads or writes it. The element at a place: offset + sum(place * stride),
// and for a load what its statement adds to that.
struct Access {
  int32_t buffer = 0;                              // of the program's inputs, then its outputs
  c10::ScalarType dtype = c10::ScalarType::Float;  // in memory
  int64_t offset = 0;                              // in elements
  Dims strides;                                    // per loop dimension, in elements
  // Of a load: lanes read where statements say, or not at all.
  bool by_lane = false;

  bool operator==(const Access&) const = default;
};

struct Store {
  Access access;
  int32_t statement = 0;
  bool per_row = false;  // written once the reductions are known, not at every reduced place
};

struct Reduction {
  ReductionKind kind = ReductionKind::Sum;
  int32_t statement = 0;  // what is reduced, in the dtype of the result
  bool sampled = false;   // over kSampled elements of a row alone
  int32_t pass = 0;       // after all passes whose results it needs

  bool operator==(const Reduction&) const = default;
};

// Words of a generator that are written to a buffer before each run.
struct DrawnWords {
  int64_t elements = 0;
  int32_t each = 1;  // words of 32 bits
};

struct LoopProgram {
  int32_t inputs = 0, outputs = 0;  // buffers, in the order given
  // The last ones of the inputs, in the order in which they are drawn.
  std::vector<DrawnWords> drawn;
  std::optional<at::Generator> generator;  // of these; nothing: the default one
  Dims sizes;           // of the loop's dimensions, outermost first; at least one
  int32_t reduced = 0;  // so many of the innermost ones are reduced
  // With reductions: neighbours in the innermost kept dimension go side by side, each through its
  // own row, where they are the ones that lie side by side in memory.
  bool columns = false;
  std::vector<Access> loads;  // by the `at` of Load statements
  ScalarGraph statements;
  std::vector<Reduction> reductions;  // by the `at` of Reduced statements
  std::vector<Store> stores;
  // Where what is written is much, the text has loops of their own that write past the caches.
  bool may_stream = true;
  std::vector<std::string> operators;  // what it computes, for people: "aten::add.Tensor"

  int32_t first_drawn() const { return inputs - static_cast<int32_t>(drawn.size()); }
  int64_t drawn_words() const;

  int32_t rank() const { return static_cast<int32_t>(sizes.size()); }
  int32_t kept() const { return rank() - reduced; }
  // The dimension whose neighbours are the lanes of a vector.
  int32_t lane_dimension() const { return columns ? kept() - 1 : rank() - 1; }
  // How many places a kernel is split over: elements, or rows where there are reductions.
  int64_t places() const;
  // Bytes of all that is read and written, each element once, without what is drawn.
  int64_t bytes() const;
};

// The program for people to read.
std::string to_text(const LoopProgram& program);

}  // namespace fulgurite

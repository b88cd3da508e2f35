// The statements of a loop program as C++.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/loops/loop_program.h"
#include "codegen/loops/prelude/prelude.h"

namespace fulgurite {

class CpuBody {
 public:
  CpuBody(const LoopProgram& program, Prelude& prelude);

  // Where inner statements read.
  struct Context {
    std::string index = "i";    // of the first lane along the innermost dimension
    std::string pointer = "x";  // "x", "p": before the number of the load
    bool partial = false;       // only `k` lanes may be read
    std::string active = "L";   // so many lanes are of the loop, where all others may be read too
    // Inner statements that are known already, with what they are.
    std::map<int32_t, std::string> given = {};
  };

  // Those that are the same at every place of a row and known after a pass of reductions; -1:
  // before the first.
  std::string row_statements(int32_t pass, const Context& context);
  // What `roots` need of a row, to be known before each place: the constants among those, as
  // statements; the numbers of the others.
  std::string constants(const std::vector<int32_t>& roots);
  std::vector<int32_t> row_values(const std::vector<int32_t>& roots) const;
  // Those of each place that `roots` need.
  std::string inner_statements(const std::vector<int32_t>& roots, const Context& context);
  // Declares what is made of the number of a sample again, where that is kSampled: dividing by it
  // is a multiplication.
  std::string sample_count();
  bool is_inner(int32_t statement) const { return inner_[statement]; }
  // Whether it takes long: no load is worth more.
  bool is_costly(int32_t statement) const;
  bool needs(const std::vector<int32_t>& roots, int32_t statement) const {
    return needed(roots, {})[statement];
  }
  // Whether `roots` need no inner loads nor indices once `given` is known.
  bool need_only(const std::vector<int32_t>& roots, int32_t given) const;

  // A statement as it goes into memory of a dtype.
  std::string in_memory_type(int32_t statement, c10::ScalarType dtype);

  // Checks, to be added to the roots of one loop over all places; what declares and what reports
  // them at the beginning and the end of a function.
  std::vector<int32_t> inner_checks() const;
  bool checks_in(int32_t pass) const;  // of reductions, where nothing is stored at each place
  std::string begin_checks() const;
  std::string end_checks() const;
  // Declares what running sums and products start from, before the loop over a row.
  std::string begin_running() const;

  int32_t rank() const { return program_.rank(); }
  // Whether a number of lanes is to be given: some loads or checks are of these alone.
  bool counts_lanes() const;
  // What functions are passed besides accesses, with a comma behind each: "long i0, ", "i0, ".
  std::string parameters() const;
  std::string arguments() const;
  // Takes longer than its memory traffic.
  bool is_costly() const { return costly_; }

 private:
  std::vector<bool> needed(const std::vector<int32_t>& roots,
                           const std::map<int32_t, std::string>& given) const;
  std::vector<bool> used_of_row(const std::vector<int32_t>& roots) const;
  std::string line(int32_t i, const Context& context);
  std::string value(const ScalarNode& node, const Context& context);
  std::string load(const ScalarNode& node, const Context& context);
  std::string load_by_lane(const ScalarNode& node, const Context& context, std::string place,
                           const std::string& step);
  bool has_narrow_nan(const ScalarNode& node) const;
  std::string running(int32_t i);
  std::string check(int32_t i, const Context& context);
  std::string index(const ScalarNode& node, const Context& context);
  std::string literal(const ScalarNode& node);
  std::string infix(const ScalarNode& node);
  std::string comparison(const ScalarNode& node, const Context& context);
  std::string of_lane_numbers(const ScalarNode& node, const Context& context);
  std::string function(const ScalarNode& node);
  std::string arg(const ScalarNode& node, int i) const;

  const LoopProgram& program_;
  Prelude& prelude_;
  std::vector<bool> inner_;
  std::vector<bool> differs_;  // between lanes
  // Where it is NaN, its bits are those of a bfloat16: arithmetic keeps those of its operands, or
  // makes 0x7fc00000.
  std::vector<bool> narrow_nan_;
  std::vector<int32_t> after_;  // the pass after which a statement of the row is known
  std::vector<int32_t> outer_indices_;
  bool costly_ = false;
};

}  // namespace fulgurite

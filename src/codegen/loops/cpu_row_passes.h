// The loops of a kernel's text that reduce a row, a pass at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/loops/cpu_access.h"
#include "codegen/loops/cpu_body.h"
#include "codegen/loops/cpu_types.h"

namespace fulgurite {

// In a text: `n` elements of the innermost dimension, `count` of a row, `sample` of its first ones;
// reduction 3 is added up in a3_0, a3_1, ... and total3, and is r3 in the end.
class CpuRowPasses {
 public:
  CpuRowPasses(const LoopProgram& program, const CpuAccesses& at, const CpuVectors& vectors,
               Prelude& prelude, CpuBody& body)
      : program_(program), at_(at), lanes_(vectors.lanes), prelude_(prelude), body_(body) {}

  int32_t passes() const;
  bool nested() const { return program_.reduced > 1; }

  // All of one pass: its loops, its results and what is then known of the row.
  std::string pass(int32_t pass);
  // In the last pass, a costly statement that results and this pass need goes into memory, where it
  // is read again: of a result that does, otherwise of its own, at `kept`.
  void find_kept();
  bool has_scratch() const { return kept_statement_ >= 0 && kept_store_ < 0; }
  // With what was kept as given.
  CpuBody::Context final_context(std::string index, bool partial) const;

  // The first passes of a row may go on while the one before it is written, by way of `struct
  // Lead`: those up to the first that goes through all of a row.
  bool can_lead() const;
  int32_t lead_pass() const;
  int lead_vectors() const { return kAccumulatorsOfLead; }
  std::string lead_type();
  // Declares the results from a `lead` that is through.
  std::string lead_results();

  // Loops over the reduced dimensions but the innermost, with pointers p0, p1, ... and q0, q1, ...
  std::string open_loops() const;
  std::string close_loops() const;
  CpuBody::Context context(std::string index, bool partial) const;
  // "const long n = ...": what the comment above names.
  std::string counts() const;
  // The loop over vectors `i` in steps of so many, in blocks after which `totals` follow.
  std::string blocks(int vectors, const std::string& step, const std::string& totals) const;

 private:
  using Numbers = std::vector<int32_t>;

  // A lead shares its loop with what is written: two accumulators hide enough.
  static constexpr int kAccumulatorsOfLead = 2;

  c10::ScalarType dtype_of(const Reduction& r) const {
    return program_.statements[r.statement].dtype;
  }
  bool has_total(const Reduction& r) const;
  Numbers reductions(int32_t pass, bool sampled) const;
  Numbers statements_of(const Numbers& reductions) const;
  // What a loop over all of a row computes.
  Numbers roots(const Numbers& reductions, int32_t pass) const;
  int unrolled(const Numbers& numbers) const;
  std::string accumulators(const Numbers& numbers, int count);
  std::string accumulate(const Numbers& numbers, std::string_view slot, bool partial);
  std::string totals(const Numbers& numbers, int count);
  std::string result(int32_t i, int accumulators, std::string_view of);
  std::string sample_loop(const Numbers& numbers);
  std::string step(const Numbers& numbers, int32_t pass, int vectors);
  std::string rest(const Numbers& numbers, int32_t pass);
  std::string keep(int32_t pass, std::string_view index, bool partial);
  std::string pointers(bool first) const;

  const LoopProgram& program_;
  const CpuAccesses& at_;
  int lanes_;
  Prelude& prelude_;
  CpuBody& body_;
  int32_t kept_statement_ = -1, kept_store_ = -1, kept_pass_ = -1;
};

}  // namespace fulgurite

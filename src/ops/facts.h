// What is known of an operator without running it: from its schema, and from the catalogue where
// the schema is silent. Worked out once per operator.
#pragma once

#include <optional>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

struct OpFacts {
  c10::SmallVector<int, 2> written;        // arguments it writes, in order; hidden writes too
  c10::SmallVector<int, 2> plain_returns;  // returns that are no written argument
  bool is_view = false;                    // results may share memory with an argument
  bool changes_metadata = false;           // t_(), set_(), resize_(): geometry, no data
  bool random = false;                     // may draw from a generator
  bool is_assert = false;                  // has an effect besides its results
  bool reads_data = false;                 // item(), nonzero(): Python or shapes depend on data
  bool checks_data = false;                // a composite whose types do not depend on the data read
  int device_arg = -1, pin_arg = -1;
  c10::SmallVector<int, 2> generator_args;
  // The bool argument that switches hidden writes on, "" for always; null without hidden writes.
  const char* hidden_write_flag = nullptr;
  c10::SmallVector<int, 2> draws_when;  // draws only if all of these arguments are true (non-zero)

  // Writes nothing, draws nothing: may be dropped when its results are not used.
  bool pure() const { return written.empty() && !random && !is_assert; }
};

const OpFacts& facts_of(const c10::OperatorHandle& op);

// The arguments that this very call writes (hidden writes of batch norm only when training).
c10::SmallVector<int, 2> written_args(const Call& call);

// Whether this very call draws random numbers (dropout only when training), itself or in its body.
bool draws(const Call& call);

// Whether the results of this very call share memory with its arguments (those of to, contiguous
// and reshape only where nothing is copied; dropout's where it hands back its argument).
bool gives_view(const Call& call);

// Draws from a generator, and has no other effect.
bool only_draws(const Call& call);

// An effect, of the call or of its body on what was there before it: never dropped, merged or moved
// across another.
bool has_effect(const Call& call);

// The operator that computes what `op` writes, without writing: it has the same arguments less the
// out= ones, and returns the plain results and then one new value per written argument.
struct FunctionalForm {
  c10::OperatorHandle op;
  std::vector<int> arg_of;  // its argument -> argument of the writing operator
};
const std::optional<FunctionalForm>& functional_form(const c10::OperatorHandle& op);

// "aten::add", "Tensor"; throws InternalError where there is none.
c10::OperatorHandle find_op(const char* name, const char* overload = "");

}  // namespace fulgurite

// What is known of an operator without running it: from its schema, and from the catalogue where
// the schema is silent. Worked out once per operator.
#pragma once

#include <optional>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

struct OpFacts {
  c10::SmallVector<int, 2> written;        // arguments it writes, in order
  c10::SmallVector<int, 2> plain_returns;  // returns that are no written argument
  bool is_view = false;                    // results share memory with an argument
  bool changes_metadata = false;           // t_(), set_(), resize_(): geometry, no data
  bool random = false;                     // draws from a generator
  bool is_assert = false;                  // has an effect besides its results
  bool reads_data = false;                 // item(), nonzero(): Python or shapes depend on data
  int device_arg = -1, pin_arg = -1;
  c10::SmallVector<int, 2> generator_args;
  const char* hidden_write_flag = nullptr;  // bool argument that switches hidden writes on

  // Writes nothing, draws nothing: may be dropped when its results are not used.
  bool pure() const { return written.empty() && !random && !is_assert; }
};

const OpFacts& facts_of(const c10::OperatorHandle& op);

// The arguments that this very call writes (hidden writes of batch norm only when training).
c10::SmallVector<int, 2> written_args(const Call& call);

// An effect: never dropped, merged or moved across another.
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

#include "ops/place.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace fulgurite {
bool IndexTerm::is_constant() const {
  return statement < 0 && std::ranges::all_of(coefficients, [](int64_t c) { return c == 0; });
}

IndexTerm constant_index(int64_t value, size_t loop_rank) {
  return {.constant = value, .coefficients = Dims(loop_rank, 0)};
}

IndexTerm loop_index(size_t dimension, size_t loop_rank) {
  IndexTerm term = constant_index(0, loop_rank);
  term.coefficients[dimension] = 1;
  return term;
}

IndexTerm scaled(ScalarGraph& graph, IndexTerm term, int64_t factor, int64_t offset) {
  term.constant = term.constant * factor + offset;
  for (int64_t& c : term.coefficients) c *= factor;
  if (factor == 0) term.statement = -1;
  if (term.statement >= 0 && factor != 1)
    term.statement = (Scalar{&graph, term.statement} * given(graph, factor)).node;
  return term;
}

IndexTerm plus(ScalarGraph& graph, const IndexTerm& a, const IndexTerm& b) {
  IndexTerm sum = a;
  sum.constant += b.constant;
  for (size_t i = 0; i < sum.coefficients.size(); ++i) sum.coefficients[i] += b.coefficients[i];
  if (a.statement < 0) sum.statement = b.statement;
  if (a.statement >= 0 && b.statement >= 0)
    sum.statement = (Scalar{&graph, a.statement} + Scalar{&graph, b.statement}).node;
  return sum;
}

Scalar to_statement(ScalarGraph& graph, const IndexTerm& term) {
  std::optional<Scalar> sum;
  const auto add = [&](Scalar x) { sum = sum ? *sum + x : x; };
  if (term.statement >= 0) add({&graph, term.statement});
  for (size_t d = 0; d < term.coefficients.size(); ++d) {
    if (term.coefficients[d] == 0) continue;
    const Scalar index{&graph, graph.add({.prim = Prim::Index,
                                          .dtype = c10::ScalarType::Long,
                                          .at = static_cast<int32_t>(d)})};
    add(term.coefficients[d] == 1 ? index : index * given(graph, term.coefficients[d]));
  }
  if (term.constant != 0 || !sum) add(given(graph, term.constant));
  return *sum;
}

IndexTerm computed_index(Scalar index, size_t loop_rank) {
  IndexTerm term = constant_index(0, loop_rank);
  term.statement = index.node;
  return term;
}

Place broadcast(const Dims& operand, const Place& place, size_t loop_rank) {
  if (operand.size() > place.size())
    throw Unsupported("an operand of more dimensions than the result");
  const size_t missing = place.size() - operand.size();
  Place at(place.begin() + static_cast<std::ptrdiff_t>(missing), place.end());
  for (size_t d = 0; d < at.size(); ++d)
    if (operand[d] == 1) at[d] = constant_index(0, loop_rank);
  return at;
}

bool covers(const Place& place, const Dims& sizes, const Dims& loops) {
  Dims taken(loops.size(), 0);
  for (size_t d = 0; d < place.size(); ++d) {
    const IndexTerm& term = place[d];
    if (term.statement >= 0 || term.constant != 0) return false;
    // A number in digits: each loop's stride is what those below it reach.
    int64_t reach = 1;
    for (bool found = true; found;) {
      found = false;
      for (size_t k = 0; k < loops.size() && !found; ++k) {
        if (taken[k] || loops[k] == 1 || term.coefficients[k] != reach) continue;
        taken[k] = found = true;
        reach *= loops[k];
      }
    }
    if (reach != sizes[d]) return false;
  }
  return true;
}

std::vector<int64_t> key_of(const Place& place) {
  std::vector<int64_t> key;
  for (const IndexTerm& term : place) {
    key.push_back(term.constant);
    key.insert(key.end(), term.coefficients.begin(), term.coefficients.end());
    key.push_back(term.statement);
  }
  return key;
}

}  // namespace fulgurite

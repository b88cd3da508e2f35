#include "ops/place.h"

#include <algorithm>

namespace fulgurite {
namespace {

Scalar i64(ScalarGraph& graph, int64_t value) {
  return constant(graph, c10::ScalarType::Long, value);
}

}  // namespace

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
  if (term.statement >= 0 && factor != 1)
    term.statement = (Scalar{&graph, term.statement} * i64(graph, factor)).node;
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
  Scalar sum = i64(graph, term.constant);
  for (size_t d = 0; d < term.coefficients.size(); ++d) {
    if (term.coefficients[d] == 0) continue;
    const Scalar index{&graph, graph.add({.prim = Prim::Index,
                                          .dtype = c10::ScalarType::Long,
                                          .at = static_cast<int32_t>(d)})};
    sum = sum + (term.coefficients[d] == 1 ? index : index * i64(graph, term.coefficients[d]));
  }
  return term.statement < 0 ? sum : sum + Scalar{&graph, term.statement};
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

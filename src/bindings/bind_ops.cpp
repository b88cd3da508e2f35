// What is known of operators, for tests and for the curious.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "bindings/areas.h"
#include "ops/catalogue.h"
#include "ops/facts.h"
#include "ops/meta.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

c10::OperatorHandle handle(const std::string& name, const std::string& overload) {
  return find_op(name.c_str(), overload.c_str());
}

nb::dict facts(const std::string& name, const std::string& overload) {
  const OpFacts& f = facts_of(handle(name, overload));
  nb::dict d;
  d["written"] = std::vector<int>(f.written.begin(), f.written.end());
  d["plain_returns"] = std::vector<int>(f.plain_returns.begin(), f.plain_returns.end());
  d["is_view"] = f.is_view;
  d["changes_metadata"] = f.changes_metadata;
  d["random"] = f.random;
  d["is_assert"] = f.is_assert;
  d["reads_data"] = f.reads_data;
  d["draws_when"] = std::vector<int>(f.draws_when.begin(), f.draws_when.end());
  d["hidden_write_flag"] = f.hidden_write_flag ? nb::cast(f.hidden_write_flag) : nb::none();
  return d;
}

std::optional<std::string> form(const std::string& name, const std::string& overload) {
  const auto& f = functional_form(handle(name, overload));
  if (!f) return {};
  const std::string& o = f->op.schema().overload_name();
  return f->op.schema().name() + (o.empty() ? "" : "." + o);
}

std::vector<std::string> record_names(bool with_rule) {
  std::vector<std::string> names;
  for (auto family : catalogue())
    for (const OpRecord& record : family)
      if (record.meta || !with_rule) names.emplace_back(record.op);
  return names;
}

}  // namespace

void bind_ops(nb::module_& m) {
  m.def("op_facts", &facts, nb::arg("name"), nb::arg("overload") = "");
  m.def("functional_form", &form, nb::arg("name"), nb::arg("overload") = "");
  m.def("catalogue", &record_names, nb::arg("with_rule") = false);
}

}  // namespace fulgurite

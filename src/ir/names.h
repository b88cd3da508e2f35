// The identifiers of a printed program.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// A value is called by its name, made an identifier, or t<number>. A name that Python or the
// program uses otherwise, or that another value has or could get, has _1, _2 ... added. Values are
// named in the order of their numbers, so that a name stays the same through a series of traces.
class Names {
 public:
  explicit Names(const Trace& trace);

  void append(std::string& out, ValueId id) const;
  std::string of(ValueId id) const;

  const std::string& function() const { return function_; }

  // The regions of the trace, inner ones first, and what each is called.
  const std::vector<const Call*>& regions() const { return regions_; }
  std::string region(const Call& call) const;

 private:
  void add_regions(const std::vector<Call>& calls);
  bool is_free(const Trace& trace, std::string_view name, ValueId id) const;
  std::string take(const Trace& trace, std::string wanted, ValueId id);

  std::unordered_map<ValueId, std::string> values_;
  std::unordered_map<const Call*, std::string> region_names_;
  std::vector<const Call*> regions_;
  std::unordered_set<std::string> taken_;
  std::string function_;
};

bool is_keyword(std::string_view word);

// ASCII letters, digits and underscores alone, not starting with a digit.
bool is_identifier(std::string_view word);

}  // namespace fulgurite

#include "ir/names.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace fulgurite {
namespace {

constexpr std::array<std::string_view, 35> kKeywords = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

// What the text of a program uses besides its values.
constexpr std::array<std::string_view, 11> kUsed = {
    "RuntimeError", "_",       "abs",       "around",       "complex", "ctx",
    "float",        "getattr", "gradients", "staticmethod", "torch"};

bool is_word(unsigned char c) { return c < 0x80 && (std::isalnum(c) || c == '_'); }

// The code point at `text[i]`, which is moved to its last byte; the byte itself in bad UTF-8.
uint32_t code_point(std::string_view text, size_t& i) {
  const unsigned char lead = text[i];
  const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
  if (more == 0 || i + more >= text.size()) return lead;
  uint32_t point = lead & (0x3f >> more);
  for (int k = 1; k <= more; ++k) point = point << 6 | (text[i + k] & 0x3f);
  i += more;
  return point;
}

// "fc.weight" becomes fc_weight; letters beyond ASCII are spelled by their code points.
std::string identifier(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const unsigned char c = name[i];
    if (c >= 0x80) {
      fmt::format_to(std::back_inserter(out), "u{:x}", code_point(name, i));
    } else {
      out += is_word(c) ? static_cast<char>(c) : '_';
    }
  }
  if (!out.empty() && std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "_");
  return out;
}

// The number that an unnamed value would have to be called `name`, or kNoValue.
ValueId number_of(std::string_view name) {
  if (name.size() < 2 || name[0] != 't' || (name[1] == '0' && name.size() > 2)) return kNoValue;
  ValueId id = kNoValue;
  auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), id);
  return error == std::errc() && end == name.data() + name.size() ? id : kNoValue;
}

template <size_t n>
bool contains(const std::array<std::string_view, n>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool is_keyword(std::string_view word) { return contains(kKeywords, word); }

bool is_identifier(std::string_view word) {
  return !word.empty() && !std::isdigit(static_cast<unsigned char>(word[0])) &&
         std::all_of(word.begin(), word.end(), is_word);
}

Names::Names(const Trace& trace) {
  for (ValueId id = 0; id < static_cast<ValueId>(trace.values.size()); ++id) {
    if (trace.values[id].name.empty()) continue;
    std::string name = identifier(trace.values[id].name);
    values_.emplace(id, take(trace, std::move(name), id));
  }
  function_ = identifier(trace.name.empty() ? "computation" : trace.name);
  if (is_keyword(function_) || contains(kUsed, function_)) function_ += "_1";
  taken_.insert(function_);
  add_regions(trace.calls);
  for (const Call* call : regions_) {
    std::string name = identifier(call->op.region.empty() ? "region" : call->op.region);
    region_names_.emplace(call, take(trace, std::move(name), kNoValue));
  }
}

void Names::add_regions(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    if (call.op.aten) continue;
    add_regions(call.body);
    if (call.gradient)
      for (const CustomGradient::Case& one : call.gradient->cases) add_regions(one.calls);
    regions_.push_back(&call);
  }
}

bool Names::is_free(const Trace& trace, std::string_view name, ValueId id) const {
  if (is_keyword(name) || contains(kUsed, name) || taken_.contains(std::string(name))) return false;
  const ValueId number = number_of(name);
  if (number == kNoValue || number == id) return true;
  // Value `number` never gets the name if it has one of its own.
  return number < static_cast<ValueId>(trace.values.size()) && !trace.values[number].name.empty();
}

std::string Names::take(const Trace& trace, std::string wanted, ValueId id) {
  std::string name = wanted;
  for (int i = 1; !is_free(trace, name, id); ++i) name = fmt::format("{}_{}", wanted, i);
  taken_.insert(name);
  return name;
}

void Names::append(std::string& out, ValueId id) const {
  if (auto found = values_.find(id); found != values_.end()) {
    out += found->second;
  } else if (id == kNoValue) {
    out += '_';
  } else {
    fmt::format_to(std::back_inserter(out), "t{}", id);
  }
}

std::string Names::of(ValueId id) const {
  std::string out;
  append(out, id);
  return out;
}

std::string Names::region(const Call& call) const {
  auto found = region_names_.find(&call);
  return found != region_names_.end() ? found->second : identifier(call.op.region);
}

}  // namespace fulgurite

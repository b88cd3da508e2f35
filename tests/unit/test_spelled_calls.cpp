// Every operator of torch called with arguments of every kind, as the printer spells it. The file
// named by FULGURITE_SPELLED_CALLS is read by test_spelled_calls.py, which asks Python what it
// makes of the lines.
#include <cstdlib>
#include <fstream>

#include <ATen/core/dispatch/Dispatcher.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include "ir/call_text.h"
#include "ir/schema_check.h"
#include "trace_builder.h"

using namespace fulgurite;

namespace {

constexpr int kCallsPerOperator = 24;

struct Operands {
  Trace trace;
  std::vector<Arg> tensors;
};

Operands operands() {
  Operands result;
  Trace& trace = result.trace;
  const std::pair<const char*, TensorType> types[] = {
      {"x", f32({2, 3})}, {"y", strided(f32({2, 3}), {1, 2})}, {"z", f32({})}, {"i", f32({})}};
  for (const auto& [name, type] : types)
    result.tensors.push_back(Arg::of(add_input(trace, name, type)));
  trace.values[3].type.dtype = at::kLong;
  return result;
}

std::vector<Arg> constants(const c10::Type& type) {
  using c10::TypeKind;
  const auto all = [](auto... values) { return std::vector<Arg>{literal(values)...}; };
  switch (type.kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return all(1, 0, -1, 2);
    case TypeKind::FloatType:
      return all(0.5, 2.0, -0.0, 1e30);
    case TypeKind::BoolType:
      return all(true, false);
    case TypeKind::NumberType:
      return all(1, 1.5, true, c10::complex<double>(0, 2), -2);
    case TypeKind::StringType:
      return all("mean");
    case TypeKind::DeviceObjType:
      return all(at::Device(at::kCPU), at::Device(at::kMeta));
    case TypeKind::ScalarTypeType:
      return all(7, 3, 11);
    case TypeKind::LayoutType:
      return all(0);
    case TypeKind::MemoryFormatType:
      return all(0, 1, 2);
    default:
      return {};
  }
}

std::vector<Arg> lists(const c10::TypePtr& element, const std::vector<Arg>& tensors) {
  const bool optional = element->kind() == c10::TypeKind::OptionalType;
  const c10::TypePtr inner =
      optional ? element->castRaw<c10::OptionalType>()->getElementType() : element;
  if (inner->kind() == c10::TypeKind::TensorType) {
    std::vector<Arg> result = {Arg::list({0}, optional), Arg::list({0, 1, 2}, optional),
                               Arg::list({3}, optional), Arg::list({}, optional)};
    if (optional) result.push_back(Arg::list({kNoValue, 1}, true));
    return result;
  }
  const std::vector<Arg> items = constants(*inner);
  if (items.empty()) return {};
  std::vector<Arg> result;
  for (size_t length = 0; length < 4; ++length) {
    c10::impl::GenericList list(inner);
    for (size_t i = 0; i < length; ++i) list.push_back(items[i % items.size()].constant);
    result.push_back(literal(list));
  }
  return result;
}

// What an argument can be given; empty where there is no literal for it.
std::vector<Arg> choices(const c10::Argument& argument, const std::vector<Arg>& tensors) {
  const auto* optional = argument.real_type()->castRaw<c10::OptionalType>();
  const c10::TypePtr type = optional ? optional->getElementType() : argument.real_type();
  std::vector<Arg> result;
  if (type->kind() == c10::TypeKind::TensorType) {
    result = tensors;
    const bool written = argument.alias_info() && argument.alias_info()->isWrite();
    if (!written) {
      for (const at::Scalar& number : {at::Scalar(2), at::Scalar(2.5), at::Scalar(true)})
        result.push_back(wrapped(number));
    }
  } else if (const auto* list = type->castRaw<c10::ListType>()) {
    result = lists(list->getElementType(), tensors);
  } else {
    result = constants(*type);
  }
  if (optional) result.push_back(none());
  if (argument.default_value() && type->kind() != c10::TypeKind::TensorType)
    result.push_back(literal(*argument.default_value()));
  return result;
}

// The same draws on every platform.
struct Draws {
  uint64_t state;
  size_t below(size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  }
};

class Writer {
 public:
  explicit Writer(std::ofstream& out)
      : out_(out), pretty_(operands_.trace), explicit_(operands_.trace, true) {}

  int calls_of(const c10::OperatorHandle& op) {
    std::vector<std::vector<Arg>> all;
    for (const c10::Argument& argument : op.schema().arguments()) {
      all.push_back(choices(argument, operands_.tensors));
      if (all.back().empty()) return 0;
    }
    Draws draws{std::hash<std::string>()(Op(op).name())};
    for (int i = 0; i < kCallsPerOperator; ++i) {
      Call call;
      call.op = op;
      for (size_t a = 0; a < all.size(); ++a) {
        const auto& default_value = op.schema().arguments()[a].default_value();
        const bool leave = default_value && draws.below(2) == 0;
        const size_t pick = i == 0 ? 0 : leave ? all[a].size() - 1 : draws.below(all[a].size());
        call.args.push_back(all[a][pick]);
      }
      line(call);
    }
    return kCallsPerOperator;
  }

 private:
  void line(const Call& call) {
    std::string pretty, full;
    pretty_.append(pretty, call);
    explicit_.append(full, call);
    fmt::print(out_, "{}\t{}\t{}\n", call.op.name(), pretty, full);
  }

  std::ofstream& out_;
  Operands operands_ = operands();
  CallText pretty_, explicit_;
};

}  // namespace

TEST_CASE("spelled calls") {
  const char* path = std::getenv("FULGURITE_SPELLED_CALLS");
  std::ofstream file(path ? path : "/dev/null");
  Writer writer(file);
  int calls = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && name.name.starts_with("aten::")) calls += writer.calls_of(*op);
  }
  CHECK(calls > 50'000);
}

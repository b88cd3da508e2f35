#include "ops/kernel_errors.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include "base/lru_table.h"
#include "ir/literal.h"
#include "ir/number_argument.h"
#include "ops/catalogue.h"
#include "ops/facts.h"
#include "ops/per_operator.h"
#include "torch/dispatch_state.h"
#include "torch/operator_kernels.h"

namespace fulgurite {
namespace {

// How one argument comes.
enum class Kind : uint8_t { Constant, Nothing, Tensor, Number };

struct Question {
  struct Argument {
    Kind kind = Kind::Constant;
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    int64_t rank = 0;
    c10::IValue constant;
  };
  const void* op = nullptr;
  uint64_t unregistered = 0;  // operators by then: an address may come back as another
  int32_t elements = 1;       // what the tensors are full of
  c10::SmallVector<Argument, 4> args;
};

struct Answer {
  Question question;
  std::string error;
};

bool same(const Question& a, const Question& b) {
  if (a.op != b.op || a.unregistered != b.unregistered || a.elements != b.elements) return false;
  if (a.args.size() != b.args.size()) return false;
  for (size_t i = 0; i < a.args.size(); ++i) {
    const auto &x = a.args[i], &y = b.args[i];
    if (x.kind != y.kind || x.dtype != y.dtype || x.rank != y.rank) return false;
    if (!same_constant(x.constant, y.constant)) return false;
  }
  return true;
}

uint64_t hash_of(const Question& question) {
  auto h = reinterpret_cast<uint64_t>(question.op) + static_cast<uint64_t>(question.elements);
  const auto mix = [&](uint64_t x) { h = (h ^ x) * 0x9E3779B97F4A7C15ull, h ^= h >> 29; };
  for (const auto& arg : question.args) {
    mix(static_cast<uint64_t>(arg.kind) << 16 | static_cast<uint64_t>(arg.dtype) << 8 |
        static_cast<uint64_t>(arg.rank));
    if (arg.constant.isInt()) mix(std::bit_cast<uint64_t>(arg.constant.toInt()));
    if (arg.constant.isDouble()) mix(std::bit_cast<uint64_t>(arg.constant.toDouble()));
  }
  return h;
}

bool can_be_made(const TensorType& type) {
  return type.device.is_cpu() &&
         (c10::isIntegralType(type.dtype, true) || c10::isFloatingType(type.dtype) ||
          c10::isComplexType(type.dtype));
}

// Sizes that are named in the call are those of a single element too.
c10::IValue shrunk(const OpRecord& record, const c10::Argument& parameter,
                   const c10::IValue& constant) {
  const std::string& name = parameter.name();
  if (record.row.reduces == Reduces::Trailing && name == "normalized_shape")
    return std::vector<int64_t>(constant.toIntVector().size(), 1);
  const bool is_size = name == "N" || name == "C" || name == "HxW" || name == "group";
  if (record.row.reduces == Reduces::Groups && is_size) return 1;
  return constant;
}

// Nothing where there is an argument of another kind.
std::optional<Question> question_of(const Trace& trace, const Call& call, const OpRecord& record) {
  Question question{operator_identity(*call.op.aten), operators_unregistered(), 1, {}};
  const auto& parameters = call.op.aten->schema().arguments();
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Arg& arg = call.args[i];
    auto& asked = question.args.emplace_back();
    if (arg.kind == Arg::Kind::ValueList) return std::nullopt;
    if (arg.kind == Arg::Kind::Constant) {
      asked.constant = shrunk(record, parameters[i], arg.constant);
      continue;
    }
    asked.kind = arg.values[0] == kNoValue     ? Kind::Nothing
                 : takes_number(parameters[i]) ? Kind::Number
                                               : Kind::Tensor;
    if (asked.kind != Kind::Tensor) continue;
    const TensorType& type = type_of(trace, arg.values[0]);
    if (!can_be_made(type)) return std::nullopt;
    asked.dtype = type.dtype;
    asked.rank = static_cast<int64_t>(type.sizes.size());
  }
  return question;
}

c10::IValue argument_of(const Question::Argument& arg, int32_t elements) {
  switch (arg.kind) {
    case Kind::Constant:
      return arg.constant;
    case Kind::Nothing:
      return {};
    case Kind::Number:
      return static_cast<double>(elements);
    case Kind::Tensor:
      return at::full(at::DimVector(arg.rank, 1), elements, arg.dtype);
  }
  return {};
}

class NoWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

std::string ask(const c10::OperatorHandle& op, const Question& question) {
  const KernelsOnly below;
  const at::DisableRecordFunctionGuard unseen;
  NoWarnings none;
  const c10::WarningUtils::WarningHandlerGuard quiet(&none);
  try {
    torch::jit::Stack stack;
    for (const auto& arg : question.args) stack.push_back(argument_of(arg, question.elements));
    op.callBoxed(stack);
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string answer_to(const c10::OperatorHandle& op, Question question) {
  constexpr size_t kMost = 2048;
  struct Known {
    std::mutex mutex;
    LruTable<const Answer> answers{kMost};
  };
  static auto& known = *new Known;  // outlives threads
  const uint64_t hash = hash_of(question);
  {
    const std::lock_guard lock(known.mutex);
    const auto answer =
        known.answers.find(hash, [&](const Answer& a) { return same(a.question, question); });
    if (answer) return answer->error;
  }
  std::string error = ask(op, question);
  const std::lock_guard lock(known.mutex);
  known.answers.add(hash, std::make_shared<const Answer>(Answer{std::move(question), error}));
  return error;
}

bool has_integers(const Question& question) {
  return std::ranges::any_of(question.args, [](const Question::Argument& arg) {
    return arg.kind == Kind::Tensor && c10::isIntegralType(arg.dtype, true);
  });
}

// With tensors of ones, and of zeros too if asked.
std::string error_of(const Trace& trace, const Call& call, bool zeros) {
  if (!call.op.aten) return "";
  const OpRecord* record = find_record(*call.op.aten);
  // Of a tensor of one element, 1 is an index out of bounds: calls that take one may raise.
  const bool by_index = zeros && record && record->element;
  if (!record || !(record->pointwise || record->row || by_index)) {
    for (const Call& inner : call.body)
      if (std::string error = error_of(trace, inner, zeros); !error.empty()) return error;
    return "";
  }
  if (has_effect(call)) return "";
  auto question = question_of(trace, call, *record);
  if (!question) return "";
  std::string error = answer_to(*call.op.aten, *question);
  if (!error.empty() || !zeros || !has_integers(*question)) return error;
  question->elements = 0;
  return answer_to(*call.op.aten, std::move(*question));
}

}  // namespace

std::string error_of_kernels(const Trace& trace, const Call& call) {
  return error_of(trace, call, false);
}

bool may_raise(const Trace& trace, const Call& call) {
  return !error_of(trace, call, true).empty();
}

}  // namespace fulgurite

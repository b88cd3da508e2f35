#include "capture/number.h"

#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

#include <ATen/ScalarOps.h>
#include <torch/library.h>

#include "capture/state.h"
#include "ir/number_argument.h"
#include "ir/output_tree.h"

namespace fulgurite {
namespace {

// Errors are those of an operator: eager, which then runs, raises the ones of Python.
double divide(double a, double b) {
  TORCH_CHECK(b != 0, "float division by zero");
  return a / b;
}

double power(double a, double b) {
  TORCH_CHECK(a != 0 || b >= 0 || std::isinf(b), "0.0 cannot be raised to a negative power");
  const bool finite = std::isfinite(a) && std::isfinite(b);
  TORCH_CHECK(a >= 0 || !finite || b == std::floor(b), a, " ** ", b,
              " is a complex number, which cannot be computed in a trace");
  const double result = std::pow(a, b);
  TORCH_CHECK(!std::isinf(result) || !finite, a, " ** ", b, ": numerical result out of range");
  return result;
}

class Evaluation {
 public:
  Evaluation(std::string_view text, std::span<const double> numbers)
      : text_(text), rest_(text), numbers_(numbers) {}

  double run() {
    const double result = value();
    require(rest_.empty(), "{} is no expression", text_);
    return result;
  }

 private:
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  double value() {
    if (take("(-")) return closed(-value());
    if (take("abs(")) return closed(std::fabs(value()));
    if (take("(")) return operation();
    if (take("{")) {
      const auto index = static_cast<size_t>(literal());
      require(take("}") && index < numbers_.size(), "{} is no expression", text_);
      return numbers_[index];
    }
    return literal();
  }

  double operation() {
    const double a = value();
    if (take(" + ")) return closed(a + value());
    if (take(" - ")) return closed(a - value());
    if (take(" * ")) return closed(a * value());
    if (take(" / ")) return closed(divide(a, value()));
    if (take(" ** ")) return closed(power(a, value()));
    if (take(" < ")) return closed(a < value());
    if (take(" <= ")) return closed(a <= value());
    if (take(" > ")) return closed(a > value());
    if (take(" >= ")) return closed(a >= value());
    if (take(" == ")) return closed(a == value());
    if (take(" != ")) return closed(a != value());
    internal_error("{} is no expression", text_);
  }

  double closed(double result) {
    require(take(")"), "{} is no expression", text_);
    return result;
  }

  double literal() {
    double result = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), result);
    require(error == std::errc(), "{} is no expression", text_);
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return result;
  }

  std::string_view text_, rest_;
  std::span<const double> numbers_;
};

double evaluate(std::string_view expression, std::span<const double> numbers) {
  return Evaluation(expression, numbers).run();
}

at::Tensor item(const at::Tensor& tensor) {
  return at::native::wrapped_scalar_tensor(tensor.item().toDouble());
}

at::Tensor number(at::TensorList numbers, c10::string_view expression) {
  c10::SmallVector<double, 4> values;
  for (const at::Tensor& each : numbers) values.push_back(each.item().toDouble());
  return at::native::wrapped_scalar_tensor(
      evaluate({expression.data(), expression.size()}, {values.data(), values.size()}));
}

at::Tensor wrapped_meta() {
  at::Tensor result = at::empty({}, at::TensorOptions().dtype(at::kDouble).device(at::kMeta));
  result.unsafeGetTensorImpl()->set_wrapped_number(true);
  return result;
}

at::Tensor item_meta(const at::Tensor&) { return wrapped_meta(); }
at::Tensor number_meta(at::TensorList, c10::string_view) { return wrapped_meta(); }

// A number of the trace where torch has a symbolic one.
class NumberNode final : public c10::SymNodeImpl {
 public:
  NumberNode(at::Tensor number, std::string reader)
      : number_(std::move(number)), reader_(std::move(reader)) {}

  bool is_int() override { return false; }
  bool is_bool() override { return false; }
  bool is_float() override { return true; }
  bool has_hint() override { return false; }
  std::string str() override { return "a number that is read from a tensor"; }
  c10::SymNode clone() override { return c10::make_intrusive<NumberNode>(number_, reader_); }

  // Its place in the trace; see number_behind().
  int64_t guard_int(const char*, int64_t) override { return as_trace(number_)->id; }
  double guard_float(const char*, int64_t) override {
    Tracer::State* state = active_state();
    if (!state) user_error("a number of a capture that has ended is used");
    state->refuse_data(reader_, number_);
  }

 private:
  at::Tensor number_;
  std::string reader_;
};

// A Scalar of Python's has a node that is written in Python, which has no other way to answer.
ValueId value_of(const c10::SymFloat& number) {
  return static_cast<ValueId>(number.toSymNodeImpl()->guard_int(__FILE__, __LINE__));
}

bool is_list_of_numbers(const c10::IValue& value) {
  return value.isList() && !value.isTensorList() &&
         value.toList().elementType()->kind() == c10::TypeKind::NumberType;
}

}  // namespace

std::optional<at::Tensor> number_in(const at::Tensor& tensor, bool lift) {
  Tracer::State* state = active_state();
  if (!state || !tensor.is_floating_point() || tensor.numel() != 1) return std::nullopt;
  if (!as_trace(tensor) && !lift && !state->is_written(tensor)) return std::nullopt;
  const at::Tensor& traced = state->to_trace(tensor);
  if (traced.unsafeGetTensorImpl()->is_wrapped_number()) return traced;
  return record_internal(*state, kItem, {traced});
}

at::Tensor arithmetic(const std::vector<at::Tensor>& numbers, const std::string& expression) {
  Tracer::State* state = active_state();
  if (!state) user_error("a number of a capture that has ended is used");
  return record_internal(*state, kNumber, {c10::List<at::Tensor>(numbers), expression});
}

SoFar so_far(const at::Tensor& number) {
  Tracer::State& state = *active_state();
  if (state.frame) user_error("a decision within an operator");
  SoFar result{state.trace, {}};
  result.trace.outputs = {as_trace(number)->id};
  result.trace.output_tree = flat_tree(1);
  for (const Tracer::State::Argument& argument : state.arguments)
    result.inputs.push_back(argument.real);
  for (const Lifted& lifted : state.lifted) result.inputs.push_back(lifted.real);
  result.trace = normalise(std::move(result.trace), GradMode::NoGrad, state.copies);
  return result;
}

void note_decision(const at::Tensor& number, bool holds) {
  active_state()->decisions.push_back({as_trace(number)->id, holds});
}

c10::Scalar symbolic(const at::Tensor& number, const std::string& reader) {
  return c10::Scalar(c10::SymFloat(c10::SymNode(c10::make_intrusive<NumberNode>(number, reader))));
}

bool is_symbolic(const c10::IValue& value) {
  if (value.isSymFloat()) return true;
  if (!is_list_of_numbers(value)) return false;
  const auto elements = value.toListRef();
  return std::any_of(elements.begin(), elements.end(),
                     [](const c10::IValue& element) { return element.isSymFloat(); });
}

ValueId number_behind(const c10::IValue& value) {
  if (value.isSymFloat()) return value_of(value.toSymFloat());
  // A constant next to numbers of the trace, which are floats: another type would not be promoted
  // as eager does it.
  const c10::Scalar given = value.toScalar();
  if (!given.isFloatingPoint() || !std::isfinite(given.toDouble()))
    active_state()->tracer->refuse(
        "a list of numbers has one that is read from a tensor and one that is no finite float",
        "give all of them as finite floats, or leave this part out of the captured function");
  const double constant = given.toDouble();
  const std::string text = fmt::format("{}", std::fabs(constant));
  return as_trace(arithmetic({}, std::signbit(constant) ? "(-" + text + ")" : text))->id;
}

c10::IValue with_hints(const c10::IValue& value, double hint) {
  if (value.isSymFloat()) return hint;
  if (!is_symbolic(value)) return value;
  c10::impl::GenericList result(value.toList().elementType());
  for (const c10::IValue& element : value.toListRef())
    result.push_back(element.isSymFloat() ? c10::IValue(hint) : element);
  return result;
}

TORCH_LIBRARY_FRAGMENT(fulgurite, m) {
  m.def("item(Tensor tensor) -> Tensor");
  m.def("number(Tensor[] numbers, str expression) -> Tensor");
}
TORCH_LIBRARY_IMPL(fulgurite, CompositeExplicitAutograd, m) {
  m.impl("item", &item);
  m.impl("number", &number);
}
TORCH_LIBRARY_IMPL(fulgurite, Autograd, m) {
  m.impl("item", torch::CppFunction::makeFallthrough());
  m.impl("number", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(fulgurite, Meta, m) {
  m.impl("item", &item_meta);
  m.impl("number", &number_meta);
}

}  // namespace fulgurite

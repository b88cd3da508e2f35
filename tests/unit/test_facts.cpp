#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/catalogue.h"
#include "ops/facts.h"

using namespace fulgurite;

namespace {

Call call_of(const char* name, const char* overload, std::vector<Arg> args) {
  Call call;
  call.op = find_op(name, overload);
  call.args = std::move(args);
  return call;
}

std::string form_of(const char* name, const char* overload = "") {
  const auto& form = functional_form(find_op(name, overload));
  if (!form) return "";
  return form->op.schema().name() + "." + form->op.schema().overload_name();
}

Arg literal(c10::IValue v) { return Arg::literal(std::move(v)); }

}  // namespace

TEST_CASE("facts from schemas") {
  const OpFacts& add = facts_of(find_op("aten::add_", "Tensor"));
  CHECK(add.written == c10::SmallVector<int, 2>{0});
  CHECK(add.plain_returns.empty());
  CHECK(!add.pure());
  CHECK(facts_of(find_op("aten::add", "Tensor")).pure());
  CHECK(facts_of(find_op("aten::view")).is_view);
  CHECK(!facts_of(find_op("aten::add", "Tensor")).is_view);
  CHECK(facts_of(find_op("aten::t_")).changes_metadata);
  CHECK(facts_of(find_op("aten::_assert_async")).is_assert);
  CHECK(facts_of(find_op("aten::item")).reads_data);
  CHECK(facts_of(find_op("aten::nonzero")).reads_data);
  CHECK(!facts_of(find_op("aten::index", "Tensor")).reads_data);
  const OpFacts& zeros = facts_of(find_op("aten::zeros"));
  CHECK(zeros.device_arg == 3);
  CHECK(zeros.pin_arg == 4);
  CHECK(facts_of(find_op("aten::bernoulli")).generator_args == c10::SmallVector<int, 2>{1});
}

TEST_CASE("an unknown operator is an internal error") {
  CHECK_THROWS_AS(find_op("aten::no_such_thing"), InternalError);
}

TEST_CASE("hidden writes depend on the flag") {
  const auto batch_norm = [](bool training, Arg mean) {
    return call_of("aten::native_batch_norm", "",
                   {Arg::of(0), literal({}), literal({}), mean, Arg::of(2), literal(training),
                    literal(0.1), literal(1e-5)});
  };
  CHECK(written_args(batch_norm(true, Arg::of(1))) == c10::SmallVector<int, 2>{3, 4});
  CHECK(written_args(batch_norm(true, literal({}))) == c10::SmallVector<int, 2>{4});
  CHECK(written_args(batch_norm(false, Arg::of(1))).empty());
  CHECK(has_effect(batch_norm(true, Arg::of(1))));
  CHECK(!has_effect(batch_norm(false, Arg::of(1))));
  CHECK(!facts_of(find_op("aten::native_batch_norm")).pure());
}

TEST_CASE("dropout draws when it trains") {
  const auto dropout = [](bool train) {
    return call_of("aten::dropout", "", {Arg::of(0), literal(0.5), literal(train)});
  };
  CHECK(draws(dropout(true)));
  CHECK(!draws(dropout(false)));
  const auto attention = [](double p) {
    return call_of("aten::scaled_dot_product_attention", "",
                   {Arg::of(0), Arg::of(1), Arg::of(2), literal({}), literal(p), literal(false),
                    literal({}), literal(false)});
  };
  CHECK(has_effect(attention(0.1)));
  CHECK(!has_effect(attention(0.0)));
}

TEST_CASE("the effects of a body are those of its call") {
  Call frame;
  frame.op = Op::named("region");
  frame.args = {Arg::of(0)};
  Call fresh = call_of("aten::neg", "", {Arg::of(0)});
  fresh.results = {Arg::of(1)};
  Call view = call_of("aten::view", "", {Arg::of(1), literal(c10::List<int64_t>({4}))});
  view.results = {Arg::of(2)};
  Call write = call_of("aten::add_", "Tensor", {Arg::of(2), Arg::of(0), literal(1)});
  write.results = {Arg::of(2)};
  frame.body = {fresh, view, write};
  CHECK(!has_effect(frame));
  frame.body[1].args[0] = Arg::of(0);  // the view is now one of what was given
  CHECK(has_effect(frame));
  frame.body = {call_of("aten::bernoulli", "", {Arg::of(0), literal({})})};
  CHECK(draws(frame));
}

TEST_CASE("functional forms") {
  CHECK(form_of("aten::add_", "Tensor") == "aten::add.Tensor");
  CHECK(form_of("aten::add", "out") == "aten::add.Tensor");
  CHECK(form_of("aten::_foreach_add_", "List") == "aten::_foreach_add.List");
  CHECK(form_of("aten::native_batch_norm") == "aten::_native_batch_norm_legit_functional.");
  CHECK(form_of("aten::_native_batch_norm_legit") == "aten::_native_batch_norm_legit_functional.");
  CHECK(form_of("aten::rrelu_with_noise") == "aten::rrelu_with_noise_functional.");
  CHECK(form_of("aten::normal_") == "aten::normal_functional.");
  CHECK(form_of("aten::t_") == "");
  CHECK(form_of("aten::add", "Tensor") == "");
  const auto& form = functional_form(find_op("aten::_native_batch_norm_legit"));
  CHECK(form->arg_of == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("every record of the catalogue names an operator and its arguments") {
  for (auto family : catalogue())
    for (const OpRecord& record : family) {
      std::string name(record.op);
      std::string overload;
      if (name.find("::") == std::string::npos) name = "aten::" + name;
      if (auto dot = name.find('.'); dot != std::string::npos) {
        overload = name.substr(dot + 1);
        name.resize(dot);
      }
      // Some are registered from Python, or by a build with other backends.
      auto op = c10::Dispatcher::singleton().findSchema({name, overload});
      if (!op && !name.starts_with("aten::")) continue;
      REQUIRE_MESSAGE(op.has_value(), name);
      CHECK_NOTHROW(facts_of(*op));
      CHECK(find_record(*op) == &record);
    }
}

#include "executors/operators/operators.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "executors/operators/results.h"
#include "ir/number_argument.h"
#include "ir/print.h"
#include "ops/facts.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

bool shares_memory(const Trace& trace, const Call& call) {
  std::vector<StorageId> storages;
  for_each_value(call.args, [&](ValueId id) { storages.push_back(type_of(trace, id).storage); });
  bool shares = false;
  for_each_value(call.results, [&](ValueId id) {
    const StorageId storage = type_of(trace, id).storage;
    shares |= std::ranges::find(storages, storage) != storages.end();
    storages.push_back(storage);
  });
  return shares;
}

bool takes_computed_numbers(const Call& call) {
  const auto& arguments = call.op.aten->schema().arguments();
  for (size_t i = 0; i < call.args.size(); ++i)
    if (call.args[i].kind != Arg::Kind::Constant &&
        (takes_number(arguments[i]) || takes_numbers(arguments[i])))
      return true;
  return is_item(*call.op.aten) || is_arithmetic(*call.op.aten);
}

// What no function of a user's could do.
Refusal refuse(const Trace& trace, const Call& call, bool differentiable) {
  if (call.gradient) return "it is an autograd.Function with a backward of its own";
  if (!call.op.aten) return "it is a region of another executor";
  if (has_effect(call) && !only_draws(call)) return "it writes to tensors that are there already";
  if (!call.retyped.empty()) return "it changes the geometry of a tensor in place";
  if (takes_computed_numbers(call)) return "it takes or makes a number that the program computes";
  bool gives = false, needs_gradient = false;
  for_each_value(call.results, [&](ValueId id) {
    gives = true;
    needs_gradient |= type_of(trace, id).requires_grad;
  });
  if (!gives) return "it gives no tensor";
  if (shares_memory(trace, call)) return "its results share memory with each other or an argument";
  if (needs_gradient && call.mode == GradMode::Grad && !differentiable)
    return "gradients are needed, and the executor has none (see its option gradient)";
  if (needs_gradient && call.mode == GradMode::Grad && draws(call))
    return "gradients are needed of a call that draws random numbers";
  return "";
}

struct OneCall {
  std::string executor, call;  // as shown
  CallFunction function;
  std::vector<size_t> order;  // by tensor argument: input of the region
  std::vector<TensorType> inputs, results;
};

std::vector<at::Tensor> called(const OneCall& code, const std::vector<at::Tensor>& arguments) {
  const WithAutogradKeys seen;
  try {
    return code.function(arguments);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    user_error("the executor {} failed in {}: {}", code.executor, code.call, error.what());
  }
}

bool run(const OneCall& code, RegionInputs inputs, RegionResults& results) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!has_layout(code.inputs[i], *inputs[i].tensor)) return false;
  std::vector<at::Tensor> arguments;
  for (size_t i : code.order) arguments.push_back(*inputs[i].tensor);
  const Versions versions(arguments);
  std::vector<at::Tensor> made = called(code, arguments);
  const auto fail = [&](const std::string& fault) {
    user_error("the executor {} gave a wrong result for {}: {}", code.executor, code.call, fault);
  };
  if (const int written = versions.first_changed(arguments); written >= 0)
    fail(fmt::format("it wrote to argument {}; it has to leave them as they are", written));
  if (const std::string fault = fault_of_results(code.results, arguments, made); !fault.empty())
    fail(fault);
  for (at::Tensor& result : made) results.push_back(owned(std::move(result)));
  return true;
}

double median_nanoseconds(const OneCall& code, TensorList tensors, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<at::Tensor> given = tensors.vec();
  std::vector<double> taken;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    c10::SmallVector<RegionInput, 8> inputs;
    for (at::Tensor& tensor : given) inputs.push_back({&tensor, false});
    c10::SmallVector<at::Tensor, 4> results;
    const auto start = Clock::now();
    run(code, inputs, results);
    taken.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  } while (Clock::now() < end);
  std::ranges::nth_element(taken, taken.begin() + static_cast<ptrdiff_t>(taken.size() / 2));
  return taken[taken.size() / 2];
}

RegionCodePointer code_of(const std::string& name, const OperatorRules& rules, const Trace& trace,
                          const Call& region) {
  require(region.body.size() == 1, "{} has {} calls", region.op.region, region.body.size());
  const Call& call = region.body[0];
  auto made = std::make_shared<OneCall>();
  made->executor = name;
  made->call = print_call(trace, call);
  std::vector<ValueId> ids;
  for_each_value(region.args, [&](ValueId id) {
    ids.push_back(id);
    made->inputs.push_back(type_of(trace, id));
  });
  for_each_value(call.args, [&](ValueId id) {
    made->order.push_back(static_cast<size_t>(std::ranges::find(ids, id) - ids.begin()));
  });
  for_each_value(region.results, [&](ValueId id) { made->results.push_back(type_of(trace, id)); });
  made->function = rules.lower(trace, call);
  auto code = std::make_shared<RegionCode>();
  code->run = [made](RegionInputs inputs, RegionTargets, RegionResults& results) {
    return run(*made, inputs, results);
  };
  code->checks_elements = true;  // any error may come of data
  code->time = [made](TensorList inputs, double seconds) {
    return median_nanoseconds(*made, inputs, seconds);
  };
  code->program = made->call;
  return code;
}

}  // namespace

Executor operator_executor(std::string name, OperatorRules given) {
  const auto rules = std::make_shared<const OperatorRules>(std::move(given));
  Executor executor;
  executor.name = name;
  executor.claims = [rules](const Trace& trace, const Call& call) {
    Refusal refusal = refuse(trace, call, rules->differentiable);
    return refusal.empty() ? rules->claims(trace, call) : refusal;
  };
  executor.lower = [rules, name](const Trace& trace, std::span<const Call* const> regions) {
    std::vector<RegionCodePointer> codes;
    for (const Call* region : regions) codes.push_back(code_of(name, *rules, trace, *region));
    return codes;
  };
  return executor;
}

}  // namespace fulgurite

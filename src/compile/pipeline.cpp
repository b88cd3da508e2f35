#include "compile/pipeline.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "executors/aten/aten.h"
#include "executors/fused_cpu/fused_cpu.h"
#include "executors/onednn/onednn.h"
#include "ir/layout.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/finish.h"
#include "passes/passes.h"
#include "passes/split.h"

namespace fulgurite {
namespace {

struct Context {
  std::vector<Executor> executors;
  std::vector<Decision>* decisions;
  std::unordered_set<ValueId> apart = {};  // what is computed again on purpose
};

bool has_fusion(const Context& context) {
  return std::ranges::any_of(context.executors, [](const Executor& e) { return bool(e.fuses); });
}

// Which programs a pass is for.
enum class Of : uint8_t {
  All,
  Undifferentiated,  // whatever runs under torch's own autograd, or without it
  Pure,              // that need not run as captured for autograd to see it
};

struct Pass {
  const char* name;
  Trace (*run)(const Trace&, const Context&);
  bool always_shown = false;  // in the series even when it changed nothing
  Of of = Of::All;
};

// Of a program that is differentiated these run on the joint trace, ...
constexpr std::array kBeforeSplit{
    // Without regions, writes in place are sooner than copies of what is written.
    Pass{"Drop Grad Mode",
         [](const Trace& t, const Context& c) { return has_fusion(c) ? drop_grad_mode(t) : t; },
         false, Of::Undifferentiated},
    Pass{"Functionalise", [](const Trace& t, const Context&) { return functionalise(t); }, false,
         Of::Pure},
    Pass{"Split Lists",
         [](const Trace& t, const Context& c) { return has_fusion(c) ? split_lists(t) : t; }, false,
         Of::Pure},
    Pass{"Dead Code Elimination", [](const Trace& t, const Context&) { return dead_code(t); }},
    Pass{"Common Subexpression Elimination",
         [](const Trace& t, const Context& c) { return common_subexpressions(t, c.apart); }},
    Pass{"Constant Folding", [](const Trace& t, const Context&) { return fold(t); }},
};

// ... and these on each half of it.
constexpr std::array kAfterSplit{
    Pass{"Transform for execution",
         [](const Trace& t, const Context& c) { return place(t, c.executors, c.decisions); }, true},
    Pass{"Delete Last Used", [](const Trace& t, const Context&) { return delete_last_used(t); },
         true},
};

// "" where `made` can take the place of `given`.
std::string interface_fault(const Trace& given, const Trace& made) {
  if (made.inputs.size() != given.inputs.size())
    return fmt::format("It takes {} inputs, and took {}", made.inputs.size(), given.inputs.size());
  for (size_t i = 0; i < given.inputs.size(); ++i) {
    const std::string before = print_type(type_of(given, given.inputs[i].id));
    const std::string after = print_type(type_of(made, made.inputs[i].id));
    if (before != after) return fmt::format("Input {} is {}, and was {}", i, after, before);
  }
  if (made.outputs.size() != given.outputs.size())
    return fmt::format("It returns {} tensors, and returned {}", made.outputs.size(),
                       given.outputs.size());
  return "";
}

// Throws UserError, naming the transform, for a trace that nothing can be done with.
void check_transform(const Trace& given, const Trace& made, const std::string& name) {
  std::string fault;
  try {
    verify(made, name);
    fault = interface_fault(given, made);
  } catch (const InternalError& error) {
    fault = error.what();
  }
  if (!fault.empty()) user_error("the transform {} made a bad trace. {}", name, fault);
}

// Makes one series.
class Runner {
 public:
  Runner(std::vector<Trace>& series, const CompileOptions& options, const Context& context)
      : series_(series), options_(options), context_(context) {}

  void begin(Trace first) {
    latest_ = first;
    series_.reserve(kBeforeSplit.size() + kAfterSplit.size() + options_.extra.size() + 3);
    series_.push_back(std::move(first));
  }

  // The user's own passes around these.
  void run_extra(std::span<const Pass> passes) {
    for (const Pass& pass : passes)
      for (bool before : {true, false}) extra(pass.name, before);
  }

  // `joint`: of a joint trace; the user's own passes ran before it was made.
  void run(std::span<const Pass> passes, bool joint = false) {
    for (const Pass& pass : passes) {
      if (!joint) extra(pass.name, /*before=*/true);
      const bool skipped = (pass.of == Of::Pure && latest_.mode == GradMode::Grad) ||
                           (pass.of == Of::Undifferentiated && joint);
      if (!skipped)
        step(pass.name, pass.always_shown, [&](const Trace& t) { return pass.run(t, context_); });
      if (!joint) extra(pass.name, /*before=*/false);
    }
  }

  template <class F>
  void step(const std::string& name, bool always_shown, F&& run) {
    const auto start = std::chrono::steady_clock::now();
    Trace next = run(latest_);
    next.milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    next.provenance = name;
    if (options_.verify) verify(next, name);
    const bool shown = always_shown || !same_program(latest_, next);
    latest_ = std::move(next);
    if (shown) series_.push_back(latest_);
  }

  const Trace& latest() const { return latest_; }
  // Whether a pass of the user's own changed what it computes, perhaps.
  bool is_another_program() const { return is_another_program_; }

 private:
  void extra(const char* anchor, bool before) {
    for (const ExtraPass& pass : options_.extra)
      if (pass.anchor == anchor && pass.before == before)
        step(pass.name, true, [&](const Trace& trace) {
          Trace made = pass.run(trace);
          check_transform(trace, made, pass.name);
          is_another_program_ |= !same_program(trace, made);
          return made;
        });
  }

  std::vector<Trace>& series_;
  const CompileOptions& options_;
  const Context& context_;
  Trace latest_;
  bool is_another_program_ = false;
};

constexpr const char* kFinish = "Views and writes outside";
constexpr const char* kSplit = "Forward/backward split";

// The outputs for which gradients are expected.
std::vector<bool> expected_gradients(const Trace& captured, const CompileOptions& options) {
  const std::vector<bool> differentiable = differentiable_outputs(captured);
  if (options.gradients.size() == differentiable.size()) return options.gradients;
  std::vector<bool> numbers = differentiable;
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = numbers[i] && type_of(captured, captured.outputs[i]).sizes.empty();
  return std::ranges::count(numbers, true) == 1 ? numbers : differentiable;
}

// What takes less time to compute again than to keep, as the executors see it.
bool is_cheap(const Trace& trace, const Call& call, std::span<const Executor> executors) {
  std::vector<ValueId> inputs, outputs;
  for_each_value(call.args, [&](ValueId id) {
    if (!std::ranges::count(inputs, id)) inputs.push_back(id);
  });
  for_each_value(call.results, [&](ValueId id) { outputs.push_back(id); });
  const Call* const calls[] = {&call};
  return std::ranges::any_of(executors, [&](const Executor& executor) {
    if (!executor.fuses || !executor.claims(trace, call).empty()) return false;
    const Quote quote = executor.fuses(trace, calls, inputs, outputs);
    return quote.refusal.empty() && quote.is_cheap;
  });
}

bool is_late(const Joint& joint, const Call& call) {
  bool late = true;
  for_each_value(call.results, [&](ValueId id) { late &= joint.late.contains(id); });
  return late;
}

// Nanoseconds that a product takes for each multiplication and addition.
constexpr double kPerProduct = 0.02;

// About, by what the executors say. Of what none of them has loops for, as products and attention,
// it is guessed from the sizes: those of two matrices and their product multiply to the square of
// the number of multiplications.
double nanoseconds_of(const Trace& trace, const Call& call, std::span<const Executor> executors) {
  std::vector<ValueId> inputs, outputs;
  for_each_value(call.args, [&](ValueId id) {
    if (!std::ranges::count(inputs, id)) inputs.push_back(id);
  });
  for_each_value(call.results, [&](ValueId id) { outputs.push_back(id); });
  double product = 1;
  for (ValueId id : inputs) product *= static_cast<double>(numel(type_of(trace, id)));
  if (!outputs.empty()) product *= static_cast<double>(numel(type_of(trace, outputs[0])));
  const Call* const calls[] = {&call};
  for (const Executor& executor : executors) {
    if (!executor.fuses || !executor.claims(trace, call).empty()) continue;
    const Quote quote = executor.fuses(trace, calls, inputs, outputs);
    if (quote.refusal.empty()) return quote.apart;
  }
  return kPerProduct * std::sqrt(product);
}

// Throws Unsupported where torch's own autograd has to see each call.
Compiled compile_differentiated(const Trace& captured, const CompileOptions& options,
                                const std::vector<Executor>& executors, bool views_outside) {
  Compiled result;
  Context context{executors, &result.decisions};
  Runner forward(result.series, options, context);
  forward.begin(captured);
  forward.run_extra(kBeforeSplit);
  Finished finished = finish_outside(forward.latest(), views_outside);
  const bool has_finish = !finished.finish.calls.empty();
  if (has_finish) forward.step(kFinish, true, [&](const Trace&) { return finished.core; });
  const std::vector<bool> gradients = expected_gradients(finished.core, options);
  if (!std::ranges::count(gradients, true))
    throw Unsupported("what it returns are inputs and views of them");
  Joint joint;
  forward.step("Grad transform", true, [&](const Trace& t) {
    joint = differentiate(t, gradients, options.autocast);
    context.apart = joint.again;
    return joint.trace;
  });
  forward.run(kBeforeSplit, /*joint=*/true);
  joint.trace = forward.latest();
  const auto start = std::chrono::steady_clock::now();
  const Halves halves =
      split(joint, {[&](const Trace& trace, const Call& call) {
                      return is_cheap(trace, call, context.executors);
                    },
                    [&](const Trace& trace, const Call& call) {
                      return nanoseconds_of(trace, call, context.executors);
                    },
                    [&](const Call& call) { return is_late(joint, call); }, options.memory_budget});
  result.saved = halves.reasons;
  result.bytes_needed = halves.bytes_needed;
  const auto finish = [&](Runner& runner) {
    runner.run(kAfterSplit);
    return Plan(runner.latest(),
                LowerOptions{context.executors, options.keep_inputs, options.name});
  };
  forward.step(kSplit, true, [&](const Trace&) { return halves.forward; });
  Trace split_off = halves.backward;
  split_off.provenance = kSplit;
  split_off.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (options.verify) verify(split_off, kSplit);
  Runner backward(result.backward, options, context);
  backward.begin(std::move(split_off));
  Plan first = finish(forward), second = finish(backward);
  result.is_another_program = forward.is_another_program();
  std::unique_ptr<const Plan> last;
  if (has_finish) {
    finished.finish.provenance = kFinish;
    if (options.verify) verify(finished.finish, kFinish);
    Runner runner(result.finish, options, context);
    runner.begin(std::move(finished.finish));
    runner.step("Delete Last Used", true, [](const Trace& t) { return delete_last_used(t); });
    last = std::make_unique<const Plan>(runner.latest());
  }
  result.differentiated = std::make_shared<const Differentiated>(
      std::move(finished.core), joint, halves, std::move(first), std::move(second), std::move(last),
      std::move(finished.written), options.autocast);
  return result;
}

// Runs each call that it claims by a function that the user gave.
bool has_functions(const Executor& executor) { return executor.lower && !executor.fuses; }

// Its gradient could not follow: the trace is one half of the program there.
bool runs_after_split(const ExtraPass& extra) {
  return std::ranges::any_of(kAfterSplit,
                             [&](const Pass& pass) { return extra.anchor == pass.name; });
}

bool has_history(const Trace& captured) {
  return captured.mode == GradMode::Grad &&
         std::ranges::count(differentiable_outputs(captured), true) > 0;
}

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : kBeforeSplit) names.emplace_back(pass.name);
  for (const Pass& pass : kAfterSplit) names.emplace_back(pass.name);
  return names;
}

Compiled compile(Trace captured, const CompileOptions& options) {
  if (options.verify) verify(captured, "capture");
  std::vector<Executor> executors = options.executors;
  if (executors.empty()) executors = {fused_cpu_executor(), onednn_executor(), aten_executor()};
  std::string undifferentiated;
  if (has_history(captured)) {
    if (!options.differentiate)
      undifferentiated = "gradients came in, or were asked for, in several ways";
    else if (std::ranges::any_of(options.extra, runs_after_split))
      undifferentiated = "a pass of the user's own runs where calls are placed already";
    else if (std::ranges::any_of(executors, has_functions))
      undifferentiated = "an executor of the user's own says how its calls are differentiated";
    else
      try {
        std::vector<Executor> of_training = executors;
        std::erase_if(of_training, [](const Executor& e) { return e.keeps_weights; });
        try {
          return compile_differentiated(captured, options, of_training, false);
        } catch (const SharesSaved&) {
          return compile_differentiated(captured, options, of_training, true);
        }
      } catch (const Unsupported& reason) {
        undifferentiated = reason.what();
      }
  }
  Compiled result;
  const Context context{executors, &result.decisions};
  Runner runner(result.series, options, context);
  runner.begin(std::move(captured));
  runner.run(kBeforeSplit);
  runner.run(kAfterSplit);
  result.plan = std::make_shared<const Plan>(
      result.series.back(), LowerOptions{executors, options.keep_inputs, options.name});
  result.undifferentiated = std::move(undifferentiated);
  result.is_another_program = runner.is_another_program();
  return result;
}

std::vector<at::Tensor> Compiled::run(std::vector<at::Tensor> inputs, bool& undone) const {
  return differentiated ? differentiated->run(std::move(inputs), undone)
                        : plan->run(std::move(inputs), undone);
}

int64_t Compiled::typical_nanoseconds() const {
  return differentiated ? differentiated->forward().typical_nanoseconds()
                        : plan->typical_nanoseconds();
}

}  // namespace fulgurite

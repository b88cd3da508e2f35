#include "compile/pipeline.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.h"
#include "executors/aten/aten.h"
#include "executors/fused_cpu/fused_cpu.h"
#include "executors/onednn/onednn.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

struct Context {
  std::vector<Executor> executors;
  std::vector<Decision>* decisions;
};

bool has_fusion(const Context& context) {
  return std::ranges::any_of(context.executors, [](const Executor& e) { return bool(e.fuses); });
}

struct Pass {
  const char* name;
  Trace (*run)(const Trace&, const Context&);
  bool always_shown = false;  // in the series even when it changed nothing
  bool pure_only = false;     // not for traces that run under autograd as they were captured
};

constexpr std::array kPipeline{
    // Without regions, writes in place are sooner than copies of what is written.
    Pass{"Drop Grad Mode",
         [](const Trace& t, const Context& c) { return has_fusion(c) ? drop_grad_mode(t) : t; }},
    Pass{"Functionalise", [](const Trace& t, const Context&) { return functionalise(t); }, false,
         true},
    Pass{"Split Lists",
         [](const Trace& t, const Context& c) { return has_fusion(c) ? split_lists(t) : t; }, false,
         true},
    Pass{"Dead Code Elimination", [](const Trace& t, const Context&) { return dead_code(t); }},
    Pass{"Common Subexpression Elimination",
         [](const Trace& t, const Context&) { return common_subexpressions(t); }},
    Pass{"Constant Folding", [](const Trace& t, const Context&) { return fold(t); }},
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

class Runner {
 public:
  Runner(Compiled& result, const CompileOptions& options) : result_(result), options_(options) {}

  void extra(const char* anchor, bool before) {
    for (const ExtraPass& pass : options_.extra)
      if (pass.anchor == anchor && pass.before == before)
        step(pass.name, true, [&](const Trace& trace) {
          Trace made = pass.run(trace);
          check_transform(trace, made, pass.name);
          return made;
        });
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
    if (shown) result_.series.push_back(latest_);
  }

  const Trace& latest() const { return latest_; }

  void begin(Trace captured) {
    latest_ = captured;
    result_.series.reserve(kPipeline.size() + options_.extra.size() + 1);
    result_.series.push_back(std::move(captured));
  }

 private:
  Compiled& result_;
  const CompileOptions& options_;
  Trace latest_;
};

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : kPipeline) names.emplace_back(pass.name);
  return names;
}

Compiled compile(Trace captured, const CompileOptions& options) {
  Compiled result;
  Context context{options.executors, &result.decisions};
  if (context.executors.empty())
    context.executors = {fused_cpu_executor(), onednn_executor(), aten_executor()};
  if (options.verify) verify(captured, "capture");
  Runner runner(result, options);
  runner.begin(std::move(captured));
  for (const Pass& pass : kPipeline) {
    runner.extra(pass.name, /*before=*/true);
    if (!pass.pure_only || runner.latest().mode != GradMode::Grad)
      runner.step(pass.name, pass.always_shown,
                  [&](const Trace& t) { return pass.run(t, context); });
    runner.extra(pass.name, /*before=*/false);
  }
  result.plan = std::make_shared<const Plan>(result.series.back(),
                                             LowerOptions{context.executors, options.keep_inputs});
  return result;
}

}  // namespace fulgurite

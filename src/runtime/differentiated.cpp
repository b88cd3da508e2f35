#include "runtime/differentiated.h"

#include <algorithm>

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "base/error.h"
#include "ops/facts.h"
#include "passes/memory.h"
#include "passes/passes.h"
#include "torch/default_generator.h"
#include "torch/dispatch_state.h"

namespace fulgurite {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

namespace {

// An input, and whether it was written since.
struct Kept {
  at::Tensor tensor;
  uint32_t version = 0;

  explicit Kept(const at::Tensor& tensor)
      : tensor(tensor), version(tensor.is_inference() ? 0 : tensor._version()) {}

  const at::Tensor& checked() const {
    const uint32_t now = tensor.is_inference() ? 0 : tensor._version();
    TORCH_CHECK(
        now == version,
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [",
        tensor.toString(), " ", tensor.sizes(),
        "], which is an input of a compiled function, is at "
        "version ",
        now, "; expected version ", version,
        " instead. Hint: enable anomaly detection to find the operation that failed to compute its "
        "gradient, with torch.autograd.set_detect_anomaly(True).");
    return tensor;
  }
};

// Plain memory, with no transform of torch.func in between.
bool is_plain(const at::Tensor& tensor) {
  return !tensor.defined() ||
         (tensor.layout() == at::kStrided && tensor.has_storage() && !tensor._is_zerotensor() &&
          !tensor.key_set().has(c10::DispatchKey::Python));
}

at::Tensor laid_out_as(const TensorType& type, at::Tensor&& given) {
  const at::Tensor tensor = given.resolve_conj().resolve_neg();
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (type.sizes[d] > 1 && tensor.stride(d) != type.strides[d]) {
      at::Tensor copy = at::empty_strided(tensor.sizes(), type.strides, tensor.options());
      return copy.copy_(tensor);
    }
  return tensor;
}

}  // namespace

class Differentiated::Node final : public torch::autograd::Node {
 public:
  explicit Node(std::shared_ptr<const Differentiated> program) : program_(std::move(program)) {}

  std::string name() const override { return "FulguriteBackward"; }

  // Before the forward plan runs.
  void keep_inputs(const std::vector<at::Tensor>& inputs) {
    copies_ = program_->copies_of_written(inputs);
    if (program_->draws_) generator_.emplace();
  }

  // Afterwards: `results` are those of the forward plan.
  void keep(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& results) {
    for (const at::Tensor& input : inputs) inputs_.emplace_back(input);
    for (const Source& source : program_->saved_) {
      // A kernel may give what only a backward pass needs in grad mode alone.
      if (source.kind == Source::Kind::Made || source.kind == Source::Kind::Output)
        is_complete_ &= results[source.index].defined();
      if (source.kind == Source::Kind::Made)
        made_.push_back(results[source.index]);
      else if (source.kind == Source::Kind::Output)
        outputs_.emplace_back(results[source.index], results[source.index].grad_fn().get() == this);
    }
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    OtherGradients come{program_->outputs_of(gradients), AutocastState::now(),
                        at::GradMode::is_enabled()};
    for (size_t i = 0; i < come.given.size(); ++i)
      if (released_ || (come.given[i] && freed_[i]))
        throw std::runtime_error(torch::autograd::ERR_BACKWARD_TWICE);
    latest_ = come.given;
    const bool plain = std::ranges::all_of(gradients, is_plain) &&
                       !functorch_active(dispatch_state()) &&
                       !dispatch_mode_active(dispatch_state());
    if (plain && is_complete_ && !come.creates_graph && come.given == program_->given_ &&
        come.autocast == program_->autocast_)
      return by_plan(std::move(gradients));
    const bool creates_graph = come.creates_graph;
    come.by_calls_alone = creates_graph || !is_complete_;
    if (plain) program_->note_others(std::move(come));
    return call_by_call(gradients, creates_graph);
  }

  // Of several outputs each may have a backward pass of its own: eager frees what that went
  // through.
  void release_variables() override {
    const std::lock_guard lock(mutex_);
    const bool as_expected = latest_ == program_->given_;
    bool all = true;
    for (size_t i : program_->with_history_) {
      // Nothing came in yet: the graph is given up as it is.
      freed_[i] =
          freed_[i] || latest_.empty() || latest_[i] || (as_expected && program_->within_[i]);
      all &= freed_[i];
    }
    if (!all) return;
    released_ = true;
    inputs_.clear();
    made_.clear();
    copies_.clear();
    for (SavedVariable& output : outputs_) output.reset_data();
  }

 private:
  variable_list by_plan(variable_list gradients) {
    std::vector<at::Tensor> given;
    for (at::Tensor& gradient : gradients)
      if (gradient.defined())
        given.push_back(
            laid_out_as(program_->incoming_[given.size()], std::exchange(gradient, {})));
    size_t made = 0, outputs = 0;
    for (const Source& source : program_->saved_) switch (source.kind) {
        case Source::Kind::Input:
          given.push_back(inputs_[source.index].checked());
          break;
        case Source::Kind::Statistics:
          given.push_back(inputs_[source.index].tensor);
          break;
        case Source::Kind::Copy:
          given.push_back(copies_[source.index]);
          break;
        case Source::Kind::Output:
          given.push_back(outputs_[outputs++].unpack(getptr()));
          break;
        case Source::Kind::Made:
          given.push_back(made_[made++]);
          break;
      }
    if (!torch::autograd::get_current_graph_task_keep_graph()) let_go();
    variable_list results(program_->leaves_.size());
    std::vector<at::Tensor> found = program_->backward_.run(std::move(given));
    for (size_t i = 0; i < found.size(); ++i)
      results[program_->gradient_place_[i]] = std::move(found[i]);
    return results;
  }

  // What the plan frees as it goes along is freed then. Another loss may still need the inputs.
  void let_go() {
    made_.clear();
    for (SavedVariable& output : outputs_) output.reset_data();
    bool all = true;
    for (size_t i : program_->with_history_) all &= program_->given_[i] || program_->within_[i];
    if (!all) return;
    released_ = true;
    inputs_.clear();
    copies_.clear();
  }

  variable_list call_by_call(const variable_list& gradients, bool creates_graph) {
    std::vector<at::Tensor> inputs;
    for (const Kept& input : inputs_) inputs.push_back(input.tensor);
    for (size_t i = 0; i < program_->written_.size(); ++i)
      inputs[program_->written_[i]] = copies_[i].clone();
    const at::AutoGradMode on(true);
    variable_list leaves;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (std::ranges::count(program_->written_, i) == 0) inputs_[i].checked();
    for (size_t i : program_->leaves_) {
      // A tensor of its own: what is asked for is the gradient by this way alone.
      inputs[i] =
          creates_graph ? inputs[i].view_as(inputs[i]) : inputs[i].detach().requires_grad_(true);
      leaves.push_back(inputs[i]);
    }
    variable_list results;
    {
      std::optional<DefaultGeneratorState> now;
      if (generator_) {
        now.emplace();
        generator_->restore();
      }
      results = program_->call_by_call().run(std::move(inputs));
      if (now) now->restore();
    }
    variable_list differentiated, given;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      differentiated.push_back(results[program_->with_history_[i]]);
      given.push_back(gradients[i]);
    }
    if (given.empty()) return variable_list(leaves.size());
    return torch::autograd::grad(differentiated, leaves, given, /*retain_graph=*/creates_graph,
                                 creates_graph, /*allow_unused=*/true);
  }

  const std::shared_ptr<const Differentiated> program_;
  std::mutex mutex_;
  std::vector<Kept> inputs_;
  std::vector<at::Tensor> made_, copies_;
  std::vector<SavedVariable> outputs_;
  std::optional<DefaultGeneratorState> generator_;
  std::vector<bool> latest_;  // by output: a gradient came in, the last time
  std::vector<bool> freed_ = std::vector<bool>(program_->given_.size());
  bool is_complete_ = true, released_ = false;
};

Differentiated::Differentiated(Trace captured, const Joint& joint, const Halves& halves,
                               Plan forward, Plan backward, std::unique_ptr<const Plan> finish,
                               std::vector<size_t> written, const AutocastState& autocast)
    : captured_(std::move(captured)),
      forward_(std::move(forward)),
      backward_(std::move(backward)),
      finish_(std::move(finish)),
      autocast_(autocast),
      given_(captured_.outputs.size(), false),
      written_(std::move(written)),
      written_by_finish_(written_.size()) {
  for (size_t i : joint.differentiated) given_[i] = true;
  within_ = joint.within;
  for (size_t i = 0; i < joint.differentiated.size(); ++i)
    incoming_.push_back(type_of(halves.backward, halves.backward.inputs[i].id));
  const std::vector<bool> differentiable = differentiable_outputs(captured_);
  for (size_t i = 0; i < differentiable.size(); ++i)
    if (differentiable[i]) with_history_.push_back(i);
  std::vector<bool> is_written(static_cast<size_t>(captured_.storages), false);
  for (const Call& call : captured_.calls) {
    for_each_change(call, [&](ValueId id) {
      is_written[static_cast<size_t>(type_of(captured_, id).storage)] = true;
    });
    draws_ |= draws(call);
  }
  for (size_t i = 0; i < captured_.inputs.size(); ++i) {
    const TensorType& type = type_of(captured_, captured_.inputs[i].id);
    if (type.requires_grad) leaves_.push_back(i);
    if (is_written[static_cast<size_t>(type.storage)]) written_.push_back(i);
  }
  for (size_t i : joint.gradient_of)
    gradient_place_.push_back(static_cast<size_t>(std::ranges::find(leaves_, i) - leaves_.begin()));
  for (ValueId id : halves.saved) saved_.push_back(source_of(id, joint, halves));
}

Differentiated::Source Differentiated::source_of(ValueId id, const Joint& joint,
                                                 const Halves& halves) const {
  const auto& inputs = halves.forward.inputs;
  if (const auto input = std::ranges::find(inputs, id, &Input::id); input != inputs.end()) {
    const auto index = static_cast<size_t>(input - inputs.begin());
    for (size_t i = 0; i < written_by_finish_; ++i)
      if (written_[i] == index) return {Source::Kind::Copy, i};
    const bool hidden = std::ranges::count(joint.statistics, index) > 0;
    return {hidden ? Source::Kind::Statistics : Source::Kind::Input, index};
  }
  const auto& outputs = halves.forward.outputs;
  const auto place = static_cast<size_t>(std::ranges::find(outputs, id) - outputs.begin());
  require(place < outputs.size(), "value {} is saved, and not made", id);
  return {place < captured_.outputs.size() ? Source::Kind::Output : Source::Kind::Made, place};
}

std::vector<at::Tensor> Differentiated::run(std::vector<at::Tensor> inputs, bool& undone) const {
  std::vector<at::Tensor> results = run_core(inputs, undone);
  if (!finish_) return results;
  undone = false;
  std::ranges::move(results, std::back_inserter(inputs));
  return finish_->run(std::move(inputs), undone);
}

std::vector<at::Tensor> Differentiated::run_core(const std::vector<at::Tensor>& inputs,
                                                 bool& undone) const {
  const bool has_tangents = std::ranges::any_of(
      leaves_, [&](size_t i) { return torch::autograd::isFwGradDefined(inputs[i]); });
  // Hooks of saved tensors are to see what eager saves.
  if (has_tangents || at::SavedTensorDefaultHooks::get_hooks())
    return call_by_call().run(inputs, undone);
  const auto node = c10::make_intrusive<Node>(shared_from_this());
  torch::autograd::edge_list edges;
  for (size_t i : leaves_) edges.push_back(torch::autograd::impl::gradient_edge(inputs[i]));
  node->set_next_edges(std::move(edges));
  node->keep_inputs(inputs);
  std::vector<at::Tensor> results = forward_.run(inputs, undone);
  for (size_t i : with_history_) {
    // A view of what was made under no_grad could not be written to.
    if (results[i].is_view()) {
      const at::AutoDispatchBelowADInplaceOrView below;
      results[i] = at::alias(results[i]);
    }
    torch::autograd::set_history(results[i], node);
  }
  node->keep(inputs, results);
  results.resize(given_.size());
  return results;
}

std::optional<OtherGradients> Differentiated::others() const {
  if (!has_others_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return others_;
}

void Differentiated::note_others(OtherGradients others) const {
  const std::lock_guard lock(mutex_);
  others_ = std::move(others);
  has_others_.store(true, std::memory_order_release);
}

const Plan& Differentiated::call_by_call() const {
  std::call_once(
      once_, [this] { call_by_call_ = std::make_unique<const Plan>(delete_last_used(captured_)); });
  return *call_by_call_;
}

std::vector<at::Tensor> Differentiated::copies_of_written(
    const std::vector<at::Tensor>& inputs) const {
  std::vector<at::Tensor> copies;
  for (size_t i : written_) {
    // What comes to have another history keeps the one that it has here.
    const at::AutoGradMode mode(copies.size() < written_by_finish_);
    copies.push_back(inputs[i].clone());
  }
  return copies;
}

std::vector<bool> Differentiated::outputs_of(const std::vector<at::Tensor>& gradients) const {
  std::vector<bool> given(given_.size(), false);
  for (size_t i = 0; i < gradients.size(); ++i) given[with_history_[i]] = gradients[i].defined();
  return given;
}

}  // namespace fulgurite

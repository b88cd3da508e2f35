// What a tracer knows while it listens. Private to this room.
#pragma once

#include "capture/arguments.h"
#include "capture/meta_call.h"
#include "capture/normalise.h"
#include "capture/tracer.h"
#include "torch/autograd_state.h"
#include "torch/trace_tensor.h"

namespace fulgurite {

// A call above autograd that is running down to its primitives.
struct Frame {
  Call call;
  const void* op = nullptr;
  Frame* parent = nullptr;
  ValueId first_value = 0;
  // The first call of the body is the frame's own operator on the same arguments: a primitive, as
  // long as nothing follows. Its results are kept, the call is not.
  bool primitive = false;
  std::vector<Arg> primitive_results;

  void open_primitive();  // writes that call out, before another joins it
};

// Where a value was made: in the body of a call, by a call of the program itself, or before it.
enum class Origin : uint8_t { Inner, Result, Input };

struct Lifted {
  ValueId id = kNoValue;
  at::Tensor real;
  TensorSnapshot before;
};

struct Tracer::State {
  explicit State(Tracer* tracer);

  Tracer* const tracer;
  const uint64_t serial;
  Trace trace;
  Frame* frame = nullptr;  // the innermost that is open
  std::optional<GradMode> entry_mode;
  // What is recorded gets tensors of any strides: those of the types are one example.
  bool any_layout = false;

  std::vector<Lifted> lifted;                                       // in order of first use
  std::unordered_map<const c10::TensorImpl*, at::Tensor> trace_of;  // lifted real -> trace tensor
  struct Twin {
    c10::Storage real, meta;
  };
  std::unordered_map<const c10::StorageImpl*, Twin> twins;
  std::unordered_map<StorageId, c10::Storage> given_storages;  // of inputs made from types
  struct Argument {
    at::Tensor real, traced;
  };
  std::vector<Argument> arguments;
  std::unordered_map<const c10::TensorImpl*, size_t> argument_of;  // real -> place in `arguments`
  // Real tensors made by torch.tensor(...) during capture: made anew in every run.
  std::unordered_map<const c10::TensorImpl*, at::Tensor> constants;
  std::vector<ConstantCopy> copies;  // of constants, that took their place
  struct Fillable {
    c10::Storage meta;
    std::vector<char> memory, before;
  };
  std::unordered_map<ValueId, Fillable> fillable;
  std::vector<bool> written;  // by storage
  // By storage: the trace tensor that was the first in it.
  std::vector<std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>>> owners;
  std::vector<Origin> origins;                      // by value; Inner beyond the end
  std::unordered_map<ValueId, TensorType> retyped;  // as they are now
  std::vector<DataRead> data_reads;
  std::vector<GivenGrad> grads;
  std::vector<Taken> decisions;
  struct Leaf {
    ValueId id;
    size_t before;  // the top-level call that was the first to use it
  };
  std::vector<Leaf> leaves;                    // that the program made require grad
  std::unordered_map<ValueId, ValueId> bases;  // of the views among the results
  // Values with a history that went to memory through detach() or .data.
  struct AliasWrite {
    StorageId storage;
    ValueId base;  // what was written, or what that is a view of
    size_t call;   // at the top level
    Unsupported refusal;
  };
  std::vector<AliasWrite> alias_writes;
  // An index that was read to select with it; the next call is to do so.
  struct Selecting {
    at::Tensor index;
    LanguageHooks::Place place;
    std::optional<Unsupported> refusal;
  };
  std::optional<Selecting> selecting;
  struct Selection {
    StorageId copy, source;
    Unsupported refusal;
    bool written = false;  // one of them, since
  };
  std::vector<Selection> selections;
  std::optional<Unsupported> refusal;
  std::optional<Unsupported> wanted_data;  // by a part of the open frame
  bool has_opaque_gradients = false;       // of an operator that was recorded without its parts
  bool inference_failed = false;           // in the open frame: the types of results were not found

  std::vector<LanguageHooks::Place> places, modules;  // by Call::source, Call::module
  std::unordered_map<uint64_t, int32_t> source_of;
  std::unordered_map<const void*, int32_t> module_of;

  // lift.cpp
  const at::Tensor& to_trace(const at::Tensor& tensor);
  ValueId id_of(const at::Tensor& tensor);  // of its trace tensor
  const at::Tensor* find_lifted(const at::Tensor& real) const;
  const at::Tensor& lift(const at::Tensor& real);
  void require_plain(const at::Tensor& real);
  void follow_copies(TraceTensorImpl& tensor);
  // `inference`: of inference mode, as a real tensor in its place would be.
  at::Tensor wrap(const at::Tensor& meta, c10::Device device, bool inference);
  at::Tensor meta_like(const at::Tensor& real);
  void mark_input(ValueId id, InputKind kind);
  at::Tensor make_argument(const at::Tensor& real, std::string name);
  void add_input(const at::Tensor& tensor, std::string name, InputKind kind, bool requires_grad);
  StorageId storage_id(const c10::Storage& meta);
  TensorType describe(const at::Tensor& meta, c10::Device device);
  Origin origin(ValueId id) const {
    return id < static_cast<ValueId>(origins.size()) ? origins[id] : Origin::Inner;
  }
  void set_origin(ValueId id, Origin origin);
  bool is_written(const at::Tensor& real);
  bool is_written_storage(const c10::Storage& meta);
  void note_written(StorageId storage) {
    if (storage >= static_cast<StorageId>(written.size())) written.resize(storage + 1);
    written[storage] = true;
    if (!selections.empty()) [[unlikely]]
      note_written_selection(storage);
  }
  bool is_written_id(StorageId id) const;
  void undo_writes();

  // fill.cpp
  // A trace tensor for memory that was just allocated: the program may fill it by its pointer, as
  // at::tensor does. Null where it is too large.
  at::Tensor wrap_fillable(const at::Tensor& meta, c10::Device device);
  void settle_fill(TraceTensorImpl& tensor);  // an operator is about to use it
  void settle_fills();                        // nobody will

  // record.cpp
  void record(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack* stack);
  void add(Call call);
  void note_place(Call& call);

  void name_places(Trace& captured);

  // frame.cpp
  void run_frame(const c10::OperatorHandle& op, const OpInfo& info, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack);
  void splice(Call& call);  // the calls of a body, where the call itself would be
  void settle_results(Call& call, ValueId first_value);
  // What autograd has made of the results on the stack; `first_value`: made since by the call.
  void note_results(const OpInfo& info, const torch::jit::Stack& stack, ValueId first_value);
  // Of which tensor a view is, to autograd.
  void note_base(ValueId view, const at::Tensor& tensor);
  // A write with a history, perhaps through an alias of which autograd knows nothing.
  void note_alias(const at::Tensor& written);
  // Refuses a tensor whose gradient comes from no operator, nor from a function that is recorded.
  void note_history(const TraceTensorImpl& tensor);
  bool has_written_history(const torch::autograd::AutogradMeta& meta);
  // leaves.cpp
  void note_leaf(ValueId id);
  // Those that an output's gradient needs require grad in the trace, too. Refuses where it is an
  // argument.
  void settle_leaves(const std::vector<at::Tensor>& outputs);
  // Refuses one whose memory other tensors are read from afterwards.
  void settle_alias_writes();

  // selection.cpp
  // True if the integer is read to select with it, so that any number will do.
  bool begin_selection(const at::Tensor& index);
  // In place of the call that follows, which must be that selection.
  void end_selection(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  [[noreturn]] void refuse_selection(const Unsupported& why);
  void note_written_selection(StorageId storage);
  bool is_selection(const at::Tensor& tensor);
  void settle_selections();  // refuses where one could be told from the view that eager makes

  bool is_frame_itself(const c10::OperatorHandle& op, const c10::IValue* arguments);

  // whole.cpp
  // For an operator whose parts ask for data: its results without running the parts, on `stack`.
  // False where it has to be refused.
  void make_opaque(const at::Tensor& result);  // its gradient is not to be had
  bool record_whole(const c10::OperatorHandle& op, const OpInfo& info, Call& call,
                    const torch::jit::Stack& arguments, torch::jit::Stack* stack);
  [[noreturn]] void refuse_data(const Call& call);
  // Refuses a call that failed under capture, and would not in eager.
  void refuse_other_error(const Call& call, const std::string& error);

  // reads.cpp
  // True if the operator needed data, and got it from real tensors; refuses where it cannot.
  bool read_data(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack* stack);
  void note_read(const at::Tensor& real);
  // True if the data is a bool that the program only looks at to raise an error: recorded as that.
  bool record_check(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  // `reader`, an operator, wants to know what cannot be known.
  [[noreturn]] void refuse_data(const std::string& reader, const at::Tensor& tensor,
                                bool gives_tensor = false);
  // True if the operator only ends a constant that the program makes from Python data.
  bool keep_constant(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack* stack);
};

// The state of the tracer that listens on this thread.
Tracer::State* active_state();
void set_active_state(Tracer::State* state);

GradMode current_grad_mode();

// "what, at the program's line; instead ...".
Unsupported refusal_of(const std::string& what, const std::string& instead);

// Throws `error` in the form of the program's language.
[[noreturn]] void raise(const Unsupported& error);
const LanguageHooks& language_hooks();

// Records `aten::name` on tensors, for what torch does without an operator.
at::Tensor record_internal(Tracer::State& state, const char* name, std::vector<c10::IValue> args);

}  // namespace fulgurite

// Capture of a PyTorch program inside the dispatcher.
//
// While a `Tracer` listens, every operator call of its thread, from Python or from C++, is
// recorded and answered with trace tensors: they have sizes, strides, a dtype and a device, but no
// data. Two levels are recorded at once: the call above autograd (aten::linear), and below it, as
// its body, the primitives it ran (aten::t, aten::addmm).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/error.h"
#include "ir/trace.h"

namespace fulgurite {

// The program read the data of a real tensor: what was captured holds for that data only.
struct DataRead {
  at::Tensor real;
  uint32_t version = 0;  // of its data when it was read; 0 for an inference tensor
};

// The program left a gradient in a leaf: `loss.backward()`.
struct GivenGrad {
  at::Tensor leaf;  // a trace tensor (an argument) or a lifted real one
  at::Tensor grad;  // a trace tensor
};

// The program compared a number that is read from a tensor with another.
struct Taken {
  ValueId number = kNoValue;  // is not 0 where the comparison holds
  bool holds = false;
};

struct Captured {
  Trace trace;
  std::vector<at::Tensor> lifted;  // the real tensors behind the inputs that are no arguments
  std::vector<DataRead> data_reads;
  std::vector<Taken> decisions;
  bool writes_inputs = false;  // to the memory of one, lifted ones among them
};

// What capture asks of the language that the program is written in. A C++ program has none of it.
struct LanguageHooks {
  // Fills in the line and the module that are running; false where unknown. Called without the GIL.
  struct Place {
    const void* code = nullptr;  // identity of the code object
    int instruction = 0;
    const void* module = nullptr;  // identity of the innermost nn.Module, null outside of any
  };
  bool (*place)(Place&) = nullptr;
  // Called once per distinct place, at the end of a capture.
  SourceLine (*source)(const Place&) = nullptr;
  std::string (*module_path)(const Place&) = nullptr;
  // The program is about to make a bool of data, to raise a ValueError with this message if it is
  // true, and for nothing else: fills it in. False otherwise.
  bool (*check)(std::string& error) = nullptr;
  // Whether the innermost function is at an index expression (x[i]), and where that is.
  bool (*indexes)(Place&) = nullptr;
  // Throws the error in the form that the language expects; returns where it cannot.
  void (*raise)(const Unsupported&) = nullptr;
  // Runs `work` while other threads may have the language's lock, as autograd's engine demands.
  void (*unlocked)(const std::function<void()>& work) = nullptr;
};
void set_language_hooks(const LanguageHooks& hooks);
void without_language_lock(const std::function<void()>& work);

class Tracer {
 public:
  Tracer();
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // A trace tensor like `real`. Inputs that share a storage do so again; for a tensor that is an
  // input already, the same trace tensor.
  at::Tensor input(const at::Tensor& real, std::string name);
  // The same from a type (for replays).
  at::Tensor input(const TensorType& type, std::string name, InputKind kind = InputKind::Argument);

  // Listens on this thread from construction to destruction. Throws UserError where capture is
  // not possible now: another capture on this thread, an active dispatch mode, functorch.
  class Listening {
   public:
    explicit Listening(Tracer& tracer);
    ~Listening();
    Listening(const Listening&) = delete;

   private:
    Tracer& tracer_;
    bool autocast_cache_, autograd_threads_, saved_hooks_;
  };

  // The gradients that the program left in leaves, once listening is over. The real leaves have
  // their own again; whoever wants the new ones makes them outputs.
  const std::vector<GivenGrad>& grads() const;

  // The program reads the data of a real tensor behind the dispatcher's back (numpy(), tolist()):
  // notes it, or refuses where the program has written to it; `how` it reads.
  void read_data(const at::Tensor& real, const std::string& how);

  // Whether the program wrote to the memory of a real tensor: the write is recorded, not done, so
  // that what lies in memory is not what the program would see.
  bool has_written(const at::Tensor& real) const;

  // Whether an operator was recorded whose gradient cannot be: it looks at data.
  bool has_opaque_gradients() const;

  bool has_drawn() const;  // random numbers, in what is recorded so far

  // The trace of what was recorded. `outputs` are trace tensors, or real ones (lifted). Throws
  // Unsupported where the program did something that cannot be replayed, even if it swallowed the
  // error that it got.
  Captured finish(const std::vector<at::Tensor>& outputs, OutputTree tree);

  // Records a refusal and throws it: `what` the program did, `instead` what can be done.
  [[noreturn]] void refuse(const std::string& what, const std::string& instead);

  // The tracer that listens on this thread, or null.
  static Tracer* active();

  // What runs meanwhile on this thread is no part of the program: nothing listens to it, and a
  // tensor of the trace that it takes is refused.
  class Deaf {
   public:
    Deaf();
    ~Deaf();
    Deaf(const Deaf&) = delete;

   private:
    Tracer* listening_;
  };

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

bool is_trace_tensor(const at::Tensor& tensor);
// Refuses one that was selected by a traced integer (selection.cpp): where it lies is not known.
void refuse_place_of_selection(const at::Tensor& tensor);
ValueId trace_value(const at::Tensor& tensor);                // kNoValue for a real one
std::string describe_trace_tensor(const at::Tensor& tensor);  // its type, as printed; any tensor's

struct Copy {
  at::Tensor original, copy;
};
// What copy.deepcopy makes of a tensor, recorded: memory of its own with the same layout; a leaf
// that requires grad if `tensor` does. Throws UserError for a tensor that is no leaf, as eager
// does. What shares memory with the original of one of `others` does so with its copy.
at::Tensor copy_of(const at::Tensor& tensor, const std::vector<Copy>& others = {});

}  // namespace fulgurite

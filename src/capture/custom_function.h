// A torch.autograd.Function under grad mode: one call, with its forward as the body and its
// backward captured beside it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace fulgurite {

// In order: construct, run the forward with torch's own machinery, end_forward(); for each pattern
// of gradients begin_backward(), run the backward, end_backward(); then finish(). Given up before
// that, it leaves what the forward ran, as if there were no function.
class CustomCall {
 public:
  // Whether the tracer of this thread can record one now: not inside of an operator.
  static bool possible();

  // `inputs`: the tensors among the function's arguments, in order, with repeats.
  CustomCall(std::string name, const std::vector<at::Tensor>& inputs);
  ~CustomCall();
  CustomCall(const CustomCall&) = delete;
  CustomCall& operator=(const CustomCall&) = delete;

  // `outputs`: the tensors among the function's results as autograd handed them on; `saved`: for
  // the backward. Throws Unsupported for a result that is not traced.
  void end_forward(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& saved,
                   bool zeros_for_none);

  // A gradient for each output that is `given`, undefined for the others. Autocast is off until
  // end_backward(), as it is when a program differentiates.
  std::vector<at::Tensor> begin_backward(const std::vector<bool>& given);

  // `results`: one for each of the inputs, undefined for None.
  void end_backward(const std::vector<at::Tensor>& results);

  void finish();
  void give_up();

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
};

// While a trace with such a call is run again: its result has the history that it requires grad by,
// though no operator gave it one.
void note_custom_result(const at::Tensor& result);

}  // namespace fulgurite

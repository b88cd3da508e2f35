#include "pystate/call_handlers.h"
#include "pystate/callee_rows.h"

namespace fulgurite::pystate {
namespace {

using namespace handlers;

constexpr Handed kReads = Handed::Reads;

constexpr CalleeRow kRows[] = {
    // Operators: the dispatcher sees them.
    {"torch._C._VariableFunctions", "*", dispatches, kReads},
    {"torch._C._nn", "*", dispatches, kReads},
    {"torch._C._fft", "*", dispatches, kReads},
    {"torch._C._linalg", "*", dispatches, kReads},
    {"torch._C._special", "*", dispatches, kReads},
    {"torch._C._sparse", "*", dispatches, kReads},
    {"torch._C._nested", "*", dispatches, kReads},
    {"torch._C.TensorBase", "*", dispatches, kReads},
    {"torch._C.TensorBase", "numpy tolist data_ptr __array__ untyped_storage", reads_tensor_data},
    {"torch._C.TensorBase", "requires_grad_ retain_grad set_ share_memory_ _set_post_accumulate",
     changes_tensor_state},

    // Questions. What the capture tracks (grad mode, autocast, dispatch modes) is not guarded here.
    {"torch._C", "_get_* get_*", asks, kReads},
    {"torch._C", "is_* _is_* has_* _has_* _len_torch_*", looks, kReads},
    {"torch._C", "get_autocast_* _get_dispatch_* _get_function_stack_at _get_torch_function_state",
     looks, kReads},
    {"torch._C", "_get_tracing_state _get_value_trace _get_tensor_metadata _get_nested_int", looks,
     kReads},
    {"torch._C", "_group_tensors_by_device_and_dtype", makes, kReads},
    {"torch._C", "_log_api_usage_once _accelerator_getAccelerator", looks, kReads},
    {"torch._C", "_get_obj_in_tls _get_model_*", nullptr},
    {"torch", "is_grad_enabled is_autocast_enabled is_autocast_cache_enabled get_autocast_dtype",
     looks, kReads},
    {"torch", "is_autocast_cpu_enabled get_autocast_cpu_dtype get_autocast_gpu_dtype", looks,
     kReads},
    {"torch", "is_inference_mode_enabled", looks, kReads},
    {"torch", "get_default_dtype get_num_threads get_num_interop_threads", asks, kReads},
    {"torch.Size", "numel", makes, kReads},
    {"torch", "is_floating_point is_complex", dispatches, kReads},
    {"torch", "finfo iinfo Size device", makes, kReads},
    {"torch._C._autograd", "_make_saved_tensor _saved_tensors_hooks_is_enabled", looks, kReads},
    {"torch._C.Generator", "get_state", looks, kReads},
    {"torch.device", "__enter__ __exit__", looks},  // a function mode; the caller watches those

    // NumPy, random numbers excepted
    {"numpy._core._multiarray_umath", "*", computes_on_arrays, kReads},
    {"numpy._core._multiarray_umath._array_converter", "*", computes_on_arrays, kReads},
    {"numpy.ndarray", "*", array_method},
    {"numpy.ufunc", "*", computes_on_arrays},
    {"numpy.generic", "*", makes, kReads},
    {"numpy", "dtype ndarray bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64", makes,
     kReads},
    {"numpy", "float16 float32 float64 complex64 complex128 str_ bytes_", makes, kReads},
};

}  // namespace

std::span<const CalleeRow> library_callees() { return kRows; }

}  // namespace fulgurite::pystate

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

    // Questions about ambient state that the capture tracks, and switches of it
    {"torch._C", "_has_torch_function _has_torch_function_unary _has_torch_function_variadic",
     looks},
    {"torch._C", "_get_tracing_state _is_tracing _log_api_usage_once _get_deterministic_algorithms",
     looks},
    {"torch._C", "_get_cudnn_enabled _get_cudnn_benchmark _get_cudnn_deterministic", looks},
    {"torch", "is_grad_enabled is_autocast_enabled is_autocast_cache_enabled get_autocast_dtype",
     looks},
    {"torch", "is_autocast_cpu_enabled get_autocast_cpu_dtype get_autocast_gpu_dtype", looks},
    {"torch", "is_inference_mode_enabled get_default_dtype is_floating_point is_complex", looks},

    {"torch._C", "_accelerator_getAccelerator", looks},
    {"torch._C", "is_* _is_* get_* _get_* has_* _has_*", looks, kReads},
    {"torch", "finfo iinfo Size device", makes, kReads},
    {"torch._C._autograd", "_make_saved_tensor _saved_tensors_hooks_is_enabled", looks, kReads},
    {"torch._C.Generator", "get_state", looks, kReads},
    {"torch.device", "__enter__ __exit__", looks},  // a function mode; the caller watches those

    // NumPy, random numbers excepted
    {"numpy._core._multiarray_umath", "*", computes_on_arrays, kReads},
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

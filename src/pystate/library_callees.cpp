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

    // Questions to torch about its settings, which are part of an entry's key.
    {"torch._C", "is_* _is_* get_* _get_* has_* _has_* _log_api_usage_once", nothing, kReads},

    // NumPy, random numbers excepted
    {"numpy._core._multiarray_umath", "*", computes_on_arrays, kReads},
    {"numpy.ndarray", "*", array_method},
    {"numpy.generic", "*", makes, kReads},
    {"numpy", "dtype ndarray bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64", makes,
     kReads},
    {"numpy", "float16 float32 float64 complex64 complex128 str_ bytes_", makes, kReads},
};

}  // namespace

std::span<const CalleeRow> library_callees() { return kRows; }

}  // namespace fulgurite::pystate

// The memory that is kept for large results.
#include <nanobind/nanobind.h>

#include "bindings/areas.h"
#include "bindings/tensor_caster.h"
#include "executors/onednn/packed_weight.h"
#include "torch/kept_memory.h"
#include "torch/storage_watch.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

nb::dict stats() {
  const KeptMemory now = kept_memory();
  nb::dict d;
  d["in_use"] = now.in_use;
  d["kept"] = now.kept;
  d["peak"] = now.peak;
  d["mapped"] = now.mapped;
  d["reused"] = now.reused;
  d["packed"] = bytes_of_packed_weights();
  return d;
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("memory_stats", &stats,
        "Of the memory of large results (32 MiB and more) that kernels made, in bytes: in_use, by "
        "tensors that are alive; kept, for the next ones; peak, the most that was in use at once; "
        "and how often a block was mapped anew or reused. packed: bytes of packed weights.");
  m.def(
      "give_address_away",
      [](const at::Tensor& tensor) {
        if (tensor.has_storage()) refuse_to_watch(tensor.storage());
      },
      "The memory of the tensor may be written to from now on without torch knowing.");
  m.def("empty_cache", &release_kept_memory, nb::call_guard<nb::gil_scoped_release>(),
        "Gives the memory that is kept for large results back to the system; returns how many "
        "bytes that were.");
}

}  // namespace fulgurite

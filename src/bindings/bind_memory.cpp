// The memory that is kept for large results.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/areas.h"
#include "bindings/tensor_caster.h"
#include "compile/memory.h"
#include "executors/onednn/packed_weight.h"
#include "ir/call_text.h"
#include "torch/kept_memory.h"
#include "torch/measured_memory.h"
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
  d["bound"] = now.bound;
  d["mapped"] = now.mapped;
  d["reused"] = now.reused;
  d["packed"] = bytes_of_packed_weights();
  return d;
}

// Values as they are spelled, each with its bytes.
nb::list named(const Names& names, const std::vector<BytesOfValue>& values) {
  nb::list list;
  for (const auto& [id, bytes] : values) list.append(nb::make_tuple(names.of(id), bytes));
  return list;
}

nb::dict line_of(CallText& text, const Call& call, const MemoryOfCall& memory) {
  const Names& names = text.names();
  nb::dict line;
  std::string spelled;
  text.append(spelled, call);
  line["text"] = spelled;
  line["name"] = call.op.aten ? call.op.name() : names.region(call);
  line["allocated"] = memory.allocated;
  line["freed"] = memory.freed;
  line["live"] = memory.live;
  line["peak"] = memory.peak;
  line["made"] = named(names, memory.made);
  line["gone"] = named(names, memory.gone);
  nb::list reused;
  for (const auto& [result, argument] : memory.reused)
    reused.append(nb::make_tuple(names.of(result), names.of(argument)));
  line["reused"] = reused;
  return line;
}

nb::dict memory_of(const Trace& trace) {
  const MemoryTimeline timeline = predict_memory(trace);
  CallText text(trace);
  nb::dict d;
  d["arguments"] = named(text.names(), timeline.given);
  d["inputs"] = timeline.inputs;
  d["held"] = timeline.held;
  d["peak"] = timeline.peak;
  d["live"] = timeline.live;
  d["peak_index"] = timeline.peak_call;
  nb::list lines;
  for (size_t i = 0; i < trace.calls.size(); ++i)
    lines.append(line_of(text, trace.calls[i], timeline.calls[i]));
  d["lines"] = lines;
  return d;
}

nb::tuple measure(nb::callable function) {
  MeasuredMemory memory;
  nb::object result = function();
  return nb::make_tuple(memory.peak(), memory.live());
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def(
      "memory_stats", &stats,
      "Of the memory of large results (32 MiB and more) of compiled programs, in bytes: in_use, by "
      "tensors that are alive; kept, for the next ones; peak, the most that was in use at once; "
      "bound, the most that may be kept now; and how often a block was mapped anew or reused. "
      "packed: bytes of packed weights.");
  m.def("memory_of", &memory_of, nb::arg("trace"),
        "What a run of the trace needs, in bytes, call by call.");
  m.def("measure_memory", &measure, nb::arg("function"),
        "(most at once, at the end with what it returns): bytes of tensors that function() makes "
        "in this thread.");
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

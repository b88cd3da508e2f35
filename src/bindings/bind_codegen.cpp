// Texts compiled by hand, for tests and for looking at kernels.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bindings/areas.h"
#include "codegen/jit/compile.h"
#include "codegen/jit/plugin_library.h"
#include "codegen/pool/pool.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

CpuTarget target_named(const std::optional<std::string>& name) {
  return name ? cpu_target(*name) : default_target();
}

nb::dict milliseconds(const Kernel& kernel) {
  const CompileTimes& times = kernel.times;
  nb::dict d;
  d["cache_read"] = times.cache_read;
  d["plugin_load"] = times.plugin_load;
  d["set_up"] = times.set_up;
  d["front_end"] = times.front_end;
  d["passes"] = times.passes;
  d["machine_code"] = times.machine_code;
  d["cache_write"] = times.cache_write;
  d["load"] = times.load;
  return d;
}

// The kernel is a ChunkFunction; `context` is an address.
void run_kernel_chunks(const Kernel& kernel, uintptr_t context, int64_t chunks, int threads) {
  nb::gil_scoped_release others_run;
  run_chunks(kernel.function<void(void*, int64_t)>(), reinterpret_cast<void*>(context), chunks,
             threads);
}

}  // namespace

void bind_codegen(nb::module_& m) {
  nb::class_<Kernel>(m, "Kernel", "Machine code, for as long as this object lives.")
      .def_ro("symbol", &Kernel::symbol)
      .def_ro("text", &Kernel::text)
      .def_ro("object_bytes", &Kernel::object_bytes)
      .def_ro("from_disk", &Kernel::from_disk)
      .def_prop_ro("target", [](const Kernel& k) { return k.target.name; })
      .def_prop_ro("address",
                   [](const Kernel& k) { return reinterpret_cast<uintptr_t>(k.address); })
      .def_prop_ro("milliseconds", &milliseconds)
      .def("run_chunks", &run_kernel_chunks, nb::arg("context"), nb::arg("chunks"),
           nb::arg("threads"))
      .def(
          "assembly", [](const Kernel& k) { return assembly(k); },
          nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "compile_kernel",
      [](const std::string& text, const std::string& symbol,
         const std::optional<std::string>& target) {
        return compile_kernel(text, symbol, target_named(target));
      },
      nb::arg("text"), nb::arg("symbol"), nb::arg("target") = nb::none(),
      nb::call_guard<nb::gil_scoped_release>(),
      "The kernel of a C++ text; None where there is no compiler, see missing_compiler().");
  m.def("missing_compiler", &missing_compiler);
  m.def("missing_compiler_warning", &missing_compiler_warning);
  m.def("set_packaged_plugin", &set_packaged_plugin, nb::arg("path"));
  m.def("pool_threads", &pool_threads);
}

}  // namespace fulgurite

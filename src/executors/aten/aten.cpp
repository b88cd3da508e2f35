#include "executors/aten/aten.h"

namespace fulgurite {

Executor aten_executor() {
  return {.name = "aten", .claims = [](const Trace&, const Call&) { return Refusal(); }};
}

}  // namespace fulgurite

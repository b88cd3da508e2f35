#include "executors/aten/aten.h"

namespace fulgurite {

Executor aten_executor() {
  return {"aten", [](const Trace&, const Call&) { return Refusal(); }};
}

}  // namespace fulgurite

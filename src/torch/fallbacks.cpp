#include "torch/fallbacks.h"

#include <list>

#include <torch/library.h>
#include <torch/version.h>

#include "base/error.h"
#include "torch/keys.h"

namespace fulgurite {
namespace {

// A static initialiser must not throw: the conflict is told when capture is first wanted.
std::string& conflict() {
  static auto& text = *new std::string;
  return text;
}

void register_one(c10::DispatchKey key, c10::BoxedKernel kernel) {
  // Never taken back: a call may be on its way through it at any time.
  static auto& libraries = *new std::list<torch::Library>;
  libraries.emplace_back(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  libraries.back().fallback(torch::CppFunction::makeFromBoxedKernel(std::move(kernel)));
}

}  // namespace

void register_fallbacks(c10::BoxedKernel above, c10::BoxedKernel mark, c10::BoxedKernel below) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (c10::DispatchKey key : {kAbove, kMark, kBelow})
    if (dispatcher.hasBackendFallbackForDispatchKey(key)) {
      conflict() = fmt::format(
          "fulgurite needs torch's dispatch key {}, for which torch {} (or another extension) "
          "has a fallback already; use a torch version that fulgurite was built for, and load no "
          "extension that takes this key",
          c10::toString(key), TORCH_VERSION);
      return;
    }
  register_one(kAbove, std::move(above));
  register_one(kMark, std::move(mark));
  register_one(kBelow, std::move(below));
}

void require_capture_keys() {
  if (!conflict().empty()) throw UserError(conflict());
}

}  // namespace fulgurite

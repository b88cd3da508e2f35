// Debian's LLVM registers Polly with its pass builder. An empty registration keeps Polly, and the
// integer set library that it brings, out of the link.
#include "llvm/Passes/PassPlugin.h"

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "0", [](llvm::PassBuilder&) {}};
}

// Finds and loads libfulgurite_clang.so.
#pragma once

#include <string>

#include "plugin/clang_plugin.h"

namespace fulgurite {

// A file that looks like the plugin, or why there is none.
struct PluginFile {
  std::string path;
  std::string build_id;  // tells one build of the plugin from any other; hexadecimal
  std::string missing;   // the reason; empty where there is one
};

// The file that `named` names; without a name, the first that exists of: that of the package (see
// below), that of the build tree, libfulgurite_clang.so beside the program or library that this
// code is linked into. Reads no more than the head of the file.
PluginFile find_plugin(const std::string& named);

// Where the Python package fulgurite_clang has it. Python looks for the package when it imports
// fulgurite, before anything is compiled.
void set_packaged_plugin(std::string path);

struct PluginLibrary {
  const FulguriteClang* clang = nullptr;  // null where it could not be loaded
  std::string failure;                    // then why, in the words of the loader
  double load_ms = 0;
};

// Loads it, with none of its symbols visible to others. It is never unloaded.
PluginLibrary load_plugin(const std::string& path);

}  // namespace fulgurite

// Texts kept in tests/golden. FULGURITE_UPDATE_GOLDEN=1 rewrites them.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

namespace fulgurite {

inline void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(FULGURITE_GOLDEN_DIR "/") + name;
  if (std::getenv("FULGURITE_UPDATE_GOLDEN")) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  const std::string expected((std::istreambuf_iterator<char>(file)), {});
  CHECK_MESSAGE(text == expected, name << " has changed; it reads now\n" << text);
}

}  // namespace fulgurite

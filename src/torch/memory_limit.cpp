#include "torch/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace fulgurite {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

// "max", and a file that is not there, are no limit.
int64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  int64_t bytes = 0;
  return file >> bytes && bytes > 0 ? bytes : kNone;
}

// A group is bound by the limits of those around it, too. In a container its path may be that
// outside: then the one at the top is what is to be seen of it.
int64_t limit_of(const std::string& top, std::string group, const std::string& file) {
  int64_t least = kNone;
  while (true) {
    if (!group.empty() && group.back() == '/') group.pop_back();
    least = std::min(least, limit_in(top + group + "/" + file));
    const size_t parent = group.rfind('/');
    if (parent == group.npos) return least;
    group.resize(parent);
  }
}

bool names_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

int64_t memory_limit(const std::string& root) {
  int64_t least = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  const std::string top = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  // "4:memory:/user/a" of version 1, "0::/user/a" of version 2.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty())
      least = std::min(least, limit_of(top, group, "memory.max"));
    else if (names_memory(controllers))
      least = std::min(least, limit_of(top + "/memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

}  // namespace fulgurite

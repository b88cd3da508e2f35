// The limits of control groups, as files of a made-up system say them.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "torch/memory_limit.h"

namespace fulgurite {
namespace {

namespace fs = std::filesystem;

class System {
 public:
  System() {
    char name[] = "/tmp/fulgurite-limit-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~System() { fs::remove_all(root_); }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  System& file(const std::string& path, const std::string& text) {
    const fs::path whole = root_ / path;
    fs::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
    return *this;
  }
  int64_t limit() const { return memory_limit(root_.string()); }

 private:
  fs::path root_;
};

const int64_t kMachine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);

TEST_CASE("without control groups the machine's memory is the limit") {
  CHECK(System().limit() == kMachine);
  CHECK(System().file("proc/self/cgroup", "nonsense\n").limit() == kMachine);
  CHECK(memory_limit() <= kMachine);
  CHECK(memory_limit() > 0);
}

TEST_CASE("version 2: the group's limit, and those around it") {
  System system;
  system.file("proc/self/cgroup", "0::/user/job\n");
  CHECK(system.limit() == kMachine);
  system.file("sys/fs/cgroup/user/job/memory.max", "max\n");
  CHECK(system.limit() == kMachine);
  system.file("sys/fs/cgroup/user/memory.max", "5000000\n");
  CHECK(system.limit() == 5000000);
  system.file("sys/fs/cgroup/user/job/memory.max", "3000000\n");
  CHECK(system.limit() == 3000000);
}

TEST_CASE("version 2 in a container, whose path is not to be seen") {
  System system;
  system.file("proc/self/cgroup", "0::/kubepods/pod7/abc\n");
  system.file("sys/fs/cgroup/memory.max", "7000000\n");
  CHECK(system.limit() == 7000000);
  system.file("proc/self/cgroup", "0::/\n");
  CHECK(system.limit() == 7000000);
}

TEST_CASE("version 1, beside other controllers") {
  System system;
  system.file("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n");
  system.file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4000000\n");
  system.file("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(system.limit() == 4000000);
}

}  // namespace
}  // namespace fulgurite

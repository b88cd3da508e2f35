#include "codegen/jit/object_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "base/error.h"
#include "jit_harness.h"

namespace fulgurite {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

fs::path only_file_in(const fs::path& folder) {
  const auto files = files_in(folder);
  REQUIRE(files.size() == 1);
  return files.front();
}

mode_t mode_of(const fs::path& path) {
  struct stat status;
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

void set_age(const fs::path& path, int seconds) {
  const timespec then{time(nullptr) - seconds, 0};
  const timespec times[] = {then, then};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

TEST_CASE("what one cache stores, another finds") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path() / "some" / "where";
  const std::string object("an object\0with zeros", 20);
  const ObjectCache first({folder});
  CHECK(first.disabled().empty());
  CHECK_FALSE(first.find("key"));
  CHECK(first.store("key", object));
  CHECK(ObjectCache({folder}).find("key") == object);
  CHECK_FALSE(ObjectCache({folder}).find("another key"));
  CHECK(first.store("key", "a newer object"));
  CHECK(first.find("key") == "a newer object");
  CHECK(first.store("", ""));
  CHECK(first.find("") == "");
}

TEST_CASE("folders and files of the cache are this user's alone") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.path() / "cache";
  REQUIRE(ObjectCache({folder}).store("key", "object"));
  const fs::path file = only_file_in(folder);
  CHECK(mode_of(folder) == 0700);
  CHECK(mode_of(file.parent_path()) == 0700);
  CHECK(mode_of(file) == 0600);
}

TEST_CASE("a damaged entry is not found, and stored anew") {
  const TemporaryFolder temporary;
  const ObjectCache cache({temporary.path()});
  REQUIRE(cache.store("key", "object"));
  const fs::path file = only_file_in(temporary.path());
  const std::string whole = read_file(file);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 4;
    write_file(file, damaged);
    CHECK_FALSE(cache.find("key"));
    write_file(file, whole.substr(0, at));
    CHECK_FALSE(cache.find("key"));
  }
  write_file(file, whole + "x");
  CHECK_FALSE(cache.find("key"));
  CHECK(cache.store("key", "object"));
  CHECK(cache.find("key") == "object");
}

TEST_CASE("an entry of another key is not found under the same name") {
  const TemporaryFolder temporary;
  const ObjectCache cache({temporary.path()});
  REQUIRE(cache.store("one", "object"));
  const fs::path one = only_file_in(temporary.path());
  const std::string entry = read_file(one);
  fs::remove(one);
  REQUIRE(cache.store("two", "object"));
  write_file(only_file_in(temporary.path()), entry);
  CHECK_FALSE(cache.find("two"));
}

TEST_CASE("what others may write to is not used") {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "cache";
  const ObjectCache cache({folder});
  REQUIRE(cache.store("key", "object"));
  const fs::path file = only_file_in(folder);

  REQUIRE(chmod(file.c_str(), 0622) == 0);
  CHECK_FALSE(cache.find("key"));
  CHECK(cache.store("key", "object"));
  CHECK(cache.find("key") == "object");

  fs::rename(file, temporary.path() / "elsewhere");
  fs::create_symlink(temporary.path() / "elsewhere", file);
  CHECK_FALSE(cache.find("key"));
  CHECK(cache.store("key", "object"));
  CHECK(cache.find("key") == "object");

  REQUIRE(chmod(folder.c_str(), 0770) == 0);
  const ObjectCache shared({folder});
  CHECK(shared.disabled().find("is not this user's alone") != std::string::npos);
  CHECK_FALSE(shared.find("key"));
  CHECK_FALSE(shared.store("key", "object"));
}

TEST_CASE("what belongs to another user is not used" * doctest::skip(geteuid() != 0)) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "cache";
  const ObjectCache cache({folder});
  REQUIRE(cache.store("key", "object"));
  const fs::path file = only_file_in(folder);
  REQUIRE(chown(file.c_str(), 65534, 65534) == 0);
  CHECK_FALSE(cache.find("key"));
  CHECK(cache.store("key", "object"));
  CHECK(cache.find("key") == "object");
  REQUIRE(chown(folder.c_str(), 65534, 65534) == 0);
  CHECK_FALSE(ObjectCache({folder}).disabled().empty());
}

TEST_CASE("a cache that cannot be is disabled, and says why") {
  CHECK(ObjectCache({""}).disabled() == "no folder is set");
  CHECK_FALSE(ObjectCache({""}).store("key", "object"));
  CHECK(ObjectCache({"/dev/null/cache"}).disabled().find("cannot be made") != std::string::npos);
}

TEST_CASE("the least recently used entries go first") {
  const TemporaryFolder temporary;
  const std::string object(1000, 'o');
  // About six entries for each subfolder.
  const ObjectCache cache({temporary.path(), 256 * 6500});
  std::vector<std::string> keys;
  for (int i = 0; i < 1200; ++i) {
    keys.push_back("key " + std::to_string(i));
    REQUIRE(cache.store(keys.back(), object));
  }
  CHECK(files_in(temporary.path()).size() < 1200);

  // All entries are old; those of every third key are used again.
  std::vector<std::string> used, unused;
  for (const fs::path& file : files_in(temporary.path())) set_age(file, 100'000);
  for (size_t i = 0; i < keys.size(); ++i)
    if (i % 3 == 0 && cache.find(keys[i])) used.push_back(keys[i]);
  for (int i = 0; i < 400; ++i) REQUIRE(cache.store("later " + std::to_string(i), object));
  size_t kept = 0, bytes = 0;
  for (const std::string& key : used) kept += cache.find(key).has_value();
  for (const fs::path& file : files_in(temporary.path())) bytes += fs::file_size(file);
  size_t unused_kept = 0, unused_before = 0;
  for (size_t i = 0; i < keys.size(); ++i)
    if (i % 3 != 0) {
      ++unused_before;
      unused_kept += cache.find(keys[i]).has_value();
    }
  CHECK(kept > used.size() * 9 / 10);
  CHECK(unused_kept < unused_before * 7 / 10);
  CHECK(bytes < 256 * 6500);
}

TEST_CASE("many threads store and find at once") {
  const TemporaryFolder temporary;
  const ObjectCache cache({temporary.path()});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const std::string key = std::to_string(i % 10);
        const std::string object(10'000, key.front());
        if (i % 3 == 0) cache.store(key, object);
        if (auto found = cache.find(key)) wrong += *found != object;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(files_in(temporary.path()).size() == 10);
}

TEST_CASE("the environment says where the cache is and how large") {
  const auto with = [](const char* folder, const char* megabytes) {
    setenv("FULGURITE_CACHE_DIR", folder, 1);
    setenv("FULGURITE_CACHE_MB", megabytes, 1);
  };
  const char* before = getenv("FULGURITE_CACHE_DIR");
  const std::string folder = before ? before : "";
  with("/somewhere", "3");
  CHECK(cache_settings_from_environment().folder == "/somewhere");
  CHECK(cache_settings_from_environment().max_bytes == 3 << 20);
  with("0", "");
  CHECK(cache_settings_from_environment().folder == "");
  with("", "many");
  CHECK_THROWS_AS(cache_settings_from_environment(), UserError);
  with("", "");
  CHECK(cache_settings_from_environment().folder.ends_with("/fulgurite"));
  before ? setenv("FULGURITE_CACHE_DIR", folder.c_str(), 1) : unsetenv("FULGURITE_CACHE_DIR");
  unsetenv("FULGURITE_CACHE_MB");
}

}  // namespace
}  // namespace fulgurite

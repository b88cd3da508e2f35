#include "codegen/jit/object_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"

namespace fulgurite {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic = {'F', 'U', 'L', 'G', 'O', 'B', 'J', '1'};
constexpr uint64_t kFolders = 256;
constexpr off_t kMaxEntryBytes = off_t{64} << 20;
constexpr time_t kSecondsBetweenTouches = 3600;

struct Header {
  std::array<char, 8> magic;
  uint64_t key_bytes, object_bytes;
  XXH128_hash_t checksum;  // of the key and the object, which follow
};

XXH128_hash_t hash_of(std::string_view bytes) { return XXH3_128bits(bytes.data(), bytes.size()); }

fs::path path_of(const CacheSettings& settings, std::string_view key) {
  const XXH128_hash_t hash = hash_of(key);
  const std::string digits = fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  return fs::path(settings.folder) / digits.substr(0, 2) / digits.substr(2);
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  bool close() { return descriptor_ < 0 || ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

bool is_safe(const struct stat& status) {
  return status.st_uid == geteuid() && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

// Of a file that is safe to use; notes that it was used.
std::optional<std::string> read_entry(const fs::path& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status;
  if (!file || fstat(file.descriptor(), &status) || !S_ISREG(status.st_mode) || !is_safe(status) ||
      status.st_size > kMaxEntryBytes)
    return {};
  std::string content(status.st_size, '\0');
  if (read(file.descriptor(), content.data(), content.size()) !=
      static_cast<ssize_t>(content.size()))
    return {};
  if (time(nullptr) - status.st_mtime > kSecondsBetweenTouches)
    (void)!futimens(file.descriptor(), nullptr);
  return content;
}

std::string entry_of(std::string_view key, std::string_view object) {
  Header header{};
  header.magic = kMagic;
  header.key_bytes = key.size();
  header.object_bytes = object.size();
  std::string entry(sizeof header, '\0');
  entry.append(key).append(object);
  header.checksum = hash_of(std::string_view(entry).substr(sizeof header));
  std::memcpy(entry.data(), &header, sizeof header);
  return entry;
}

std::optional<std::string> object_in(std::string_view entry, std::string_view key) {
  Header header;
  if (entry.size() < sizeof header) return {};
  std::memcpy(&header, entry.data(), sizeof header);
  const std::string_view content = entry.substr(sizeof header);
  if (header.magic != kMagic || header.key_bytes != key.size() || content.size() < key.size() ||
      header.object_bytes != content.size() - key.size() || content.substr(0, key.size()) != key)
    return {};
  if (!XXH128_isEqual(hash_of(content), header.checksum)) return {};
  return std::string(content.substr(key.size()));
}

// Drops the least recently used files of a folder that has more than `max_bytes`, but not `kept`.
void shrink(const fs::path& folder, const fs::path& kept, uint64_t max_bytes) {
  struct Entry {
    fs::path path;
    timespec used;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code failure;
  for (const auto& file : fs::directory_iterator(folder, failure)) {
    struct stat status;
    if (lstat(file.path().c_str(), &status)) continue;
    total += status.st_size;
    if (file.path() != kept)
      entries.push_back({file.path(), status.st_mtim, static_cast<uint64_t>(status.st_size)});
  }
  if (total <= max_bytes) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Entry& entry : entries) {
    if (total <= max_bytes / 4 * 3) return;
    if (unlink(entry.path.c_str()) == 0) total -= entry.bytes;
  }
}

bool make_folders(const fs::path& folder) {
  if (folder.has_parent_path() && folder.parent_path() != folder &&
      access(folder.parent_path().c_str(), F_OK) && !make_folders(folder.parent_path()))
    return false;
  return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string default_folder() {
  if (const std::string home = environment("XDG_CACHE_HOME"); home.starts_with('/'))
    return home + "/fulgurite";
  if (const std::string home = environment("HOME"); home.starts_with('/'))
    return home + "/.cache/fulgurite";
  return "";
}

}  // namespace

CacheSettings cache_settings_from_environment() {
  CacheSettings settings;
  settings.folder = environment("FULGURITE_CACHE_DIR");
  if (settings.folder.empty()) settings.folder = default_folder();
  if (settings.folder == "0") settings.folder.clear();
  if (const std::string limit = environment("FULGURITE_CACHE_MB"); !limit.empty()) {
    uint64_t megabytes = 0;
    const char* end = limit.data() + limit.size();
    const auto parsed = std::from_chars(limit.data(), end, megabytes);
    if (parsed.ec != std::errc() || parsed.ptr != end || megabytes > (uint64_t{1} << 40))
      user_error("FULGURITE_CACHE_MB is '{}'; expected a number of megabytes", limit);
    settings.max_bytes = megabytes << 20;
  }
  return settings;
}

ObjectCache::ObjectCache(CacheSettings settings) : settings_(std::move(settings)) {
  const std::string& folder = settings_.folder;
  struct stat status;
  if (folder.empty())
    disabled_ = "no folder is set";
  else if (!make_folders(folder) || stat(folder.c_str(), &status) || !S_ISDIR(status.st_mode))
    disabled_ = fmt::format("{} cannot be made: {}", folder, std::strerror(errno));
  else if (!is_safe(status))
    disabled_ = fmt::format("{} is not this user's alone", folder);
}

std::optional<std::string> ObjectCache::find(std::string_view key) const {
  if (!disabled_.empty()) return {};
  const std::optional<std::string> entry = read_entry(path_of(settings_, key));
  return entry ? object_in(*entry, key) : std::nullopt;
}

bool ObjectCache::store(std::string_view key, std::string_view object) const {
  if (!disabled_.empty()) return false;
  const fs::path path = path_of(settings_, key);
  if (!make_folders(path.parent_path())) return false;
  std::string temporary = path.string() + ".XXXXXX";
  File file(mkostemp(temporary.data(), O_CLOEXEC));  // with permissions 0600
  if (!file) return false;
  const std::string entry = entry_of(key, object);
  const bool written =
      write(file.descriptor(), entry.data(), entry.size()) == static_cast<ssize_t>(entry.size());
  if (!file.close() || !written || rename(temporary.c_str(), path.c_str())) {
    unlink(temporary.c_str());
    return false;
  }
  shrink(path.parent_path(), path, settings_.max_bytes / kFolders);
  return true;
}

}  // namespace fulgurite

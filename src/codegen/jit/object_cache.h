// Compiled objects on disk, between processes: one file an entry, <folder>/<2 digits>/<30 digits>.
//
// It holds code, so it is used only while its folder and files belong to this user and nobody else
// may write to them. An entry has the text of its whole key and a checksum: what is damaged, of
// another version or of another key with the same hash is not found, and written anew by the next
// `store`. Files appear whole or not at all, for any number of processes. Any failure to write is
// silent: the next process compiles again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fulgurite {

struct CacheSettings {
  std::string folder;  // empty: no cache
  uint64_t max_bytes = uint64_t{256} << 20;
};

// FULGURITE_CACHE_DIR (0: no cache), else $XDG_CACHE_HOME/fulgurite, else ~/.cache/fulgurite;
// FULGURITE_CACHE_MB for its bound. Throws UserError where that is no number.
CacheSettings cache_settings_from_environment();

class ObjectCache {
 public:
  // Makes the folder. It is kept to about `max_bytes` by dropping the entries that were not used
  // for the longest time (a use is noted once an hour); at most one entry for each of 256
  // subfolders is beyond that.
  explicit ObjectCache(CacheSettings settings);

  // Why it is not used: it finds nothing then, and stores nothing. Empty while it is used.
  const std::string& disabled() const { return disabled_; }

  std::optional<std::string> find(std::string_view key) const;

  // Whether it was stored.
  bool store(std::string_view key, std::string_view object) const;

 private:
  CacheSettings settings_;
  std::string disabled_;
};

}  // namespace fulgurite

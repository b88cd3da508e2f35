#include "codegen/jit/plugin_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace fulgurite {
namespace {

constexpr const char* kFileName = "libfulgurite_clang.so";

struct PackagedPlugin {
  std::mutex mutex;
  std::string path;
};

PackagedPlugin& packaged_plugin() {
  static auto* plugin = new PackagedPlugin;
  return *plugin;
}

template <class T>
std::optional<T> read_at(std::ifstream& file, uint64_t offset) {
  T record;
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(reinterpret_cast<char*>(&record), sizeof record)) return {};
  return record;
}

// The GNU build id among the notes at `offset`; empty where it is not there.
std::string build_id_in(std::ifstream& file, uint64_t offset, uint64_t size) {
  std::string id;
  for (const uint64_t end = offset + size; offset < end;) {
    const auto note = read_at<Elf64_Nhdr>(file, offset);
    if (!note) return "";
    const auto padded = [](uint64_t bytes) { return (bytes + 3) & ~uint64_t{3}; };
    const uint64_t content = offset + sizeof *note + padded(note->n_namesz);
    offset = content + padded(note->n_descsz);
    if (note->n_type != NT_GNU_BUILD_ID || note->n_descsz > 64) continue;
    std::vector<char> bytes(note->n_descsz);
    file.seekg(static_cast<std::streamoff>(content));
    if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return "";
    for (char byte : bytes) id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return id;
  }
  return "";
}

std::string build_id_of(std::ifstream& file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_machine != EM_X86_64)
    return "";
  for (int i = 0; i < header->e_phnum; ++i) {
    const auto part = read_at<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!part) return "";
    if (part->p_type != PT_NOTE) continue;
    std::string id = build_id_in(file, part->p_offset, part->p_filesz);
    if (!id.empty()) return id;
  }
  return "";
}

// An absolute path: dlopen looks for a bare name elsewhere.
PluginFile examine(const std::string& name) {
  const std::string path = std::filesystem::absolute(name).string();
  std::ifstream file(path, std::ios::binary);
  if (!file) return {"", "", fmt::format("{}: {}", path, std::strerror(errno))};
  std::string id = build_id_of(file);
  if (id.empty()) return {"", "", fmt::format("{} is no library with a build id", path)};
  return {path, std::move(id), ""};
}

// The folder of the program or shared library that has this code.
std::filesystem::path own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&find_plugin), &info) || !info.dli_fname) return {};
  std::error_code ignored;
  return std::filesystem::weakly_canonical(info.dli_fname, ignored).parent_path();
}

std::vector<std::string> usual_places() {
  std::vector<std::string> places;
  {
    std::lock_guard lock(packaged_plugin().mutex);
    if (!packaged_plugin().path.empty()) places.push_back(packaged_plugin().path);
  }
  places.push_back((own_folder() / kFileName).string());
#ifdef FULGURITE_BUILT_PLUGIN
  places.push_back(FULGURITE_BUILT_PLUGIN);
#endif
  return places;
}

}  // namespace

PluginFile find_plugin(const std::string& named) {
  if (!named.empty()) return examine(named);
  for (const std::string& place : usual_places())
    if (::access(place.c_str(), F_OK) == 0) return examine(place);
  return {"", "", fmt::format("there is no {}", kFileName)};
}

void set_packaged_plugin(std::string path) {
  std::lock_guard lock(packaged_plugin().mutex);
  packaged_plugin().path = std::move(path);
}

PluginLibrary load_plugin(const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  const auto reason = [&] {
    const char* text = dlerror();
    return std::string(text ? text : "unknown error of dlopen");
  };
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return {nullptr, reason()};
  auto entry = reinterpret_cast<FulguriteClangEntry>(dlsym(library, FULGURITE_CLANG_ENTRY));
  if (!entry) return {nullptr, reason()};
  const FulguriteClang* clang = entry();
  if (clang->abi != FULGURITE_CLANG_ABI)
    return {nullptr, fmt::format("{} has interface {}, and this fulgurite needs {}", path,
                                 clang->abi, FULGURITE_CLANG_ABI)};
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  return {clang, "", elapsed.count()};
}

}  // namespace fulgurite

#include "codegen/jit/plugin_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>

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

// Linkers put the program headers and the notes there.
constexpr size_t kHeadBytes = 8192;

// What `head` has at `offset`, or nothing where it ends before.
template <class T>
std::optional<T> read_at(std::string_view head, uint64_t offset) {
  T record;
  if (offset > head.size() || head.size() - offset < sizeof record) return {};
  std::memcpy(&record, head.data() + offset, sizeof record);
  return record;
}

// The GNU build id among the notes at `offset`; empty where it is not there.
std::string build_id_in(std::string_view head, uint64_t offset, uint64_t size) {
  const auto padded = [](uint64_t bytes) { return (bytes + 3) & ~uint64_t{3}; };
  for (const uint64_t end = offset + size; offset < end;) {
    const auto note = read_at<Elf64_Nhdr>(head, offset);
    if (!note) return "";
    const uint64_t content = offset + sizeof *note + padded(note->n_namesz);
    offset = content + padded(note->n_descsz);
    if (note->n_type != NT_GNU_BUILD_ID) continue;
    std::string id;
    for (unsigned char byte : head.substr(std::min<uint64_t>(content, head.size()), note->n_descsz))
      id += fmt::format("{:02x}", byte);
    return id;
  }
  return "";
}

std::string build_id_of(std::string_view head) {
  const auto header = read_at<Elf64_Ehdr>(head, 0);
  if (!header || !head.starts_with(ELFMAG) || header->e_machine != EM_X86_64) return "";
  for (int i = 0; i < header->e_phnum; ++i) {
    const auto part = read_at<Elf64_Phdr>(head, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!part) return "";
    if (part->p_type != PT_NOTE) continue;
    std::string id = build_id_in(head, part->p_offset, part->p_filesz);
    if (!id.empty()) return id;
  }
  return "";
}

// False where the file cannot be read, with the reason in errno.
bool read_head(const std::string& path, std::string& head) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  head.resize(kHeadBytes);
  const ssize_t size = read(file, head.data(), head.size());
  const int failure = errno;
  close(file);
  head.resize(std::max<ssize_t>(size, 0));
  errno = failure;
  return size >= 0;
}

// An absolute path: dlopen looks for a bare name elsewhere.
PluginFile examine(const std::string& name) {
  const std::string path = std::filesystem::absolute(name).string();
  std::string head;
  if (!read_head(path, head)) return {"", "", fmt::format("{}: {}", path, std::strerror(errno))};
  std::string id = build_id_of(head);
  if (id.empty()) return {"", "", fmt::format("{} is no library with a build id", path)};
  return {path, std::move(id), ""};
}

// The folder of the program or shared library that has this code.
std::filesystem::path own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&find_plugin), &info) || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

std::string packaged_path() {
  std::lock_guard lock(packaged_plugin().mutex);
  return packaged_plugin().path;
}

std::string built_path() {
#ifdef FULGURITE_BUILT_PLUGIN
  return FULGURITE_BUILT_PLUGIN;
#else
  return "";
#endif
}

std::string path_beside() { return (own_folder() / kFileName).string(); }

}  // namespace

PluginFile find_plugin(const std::string& named) {
  if (!named.empty()) return examine(named);
  // One after the other: in a large process the last takes longer than all the rest.
  for (const auto place : {packaged_path, built_path, path_beside})
    if (const std::string path = place(); ::access(path.c_str(), F_OK) == 0) return examine(path);
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

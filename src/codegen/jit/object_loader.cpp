#include "codegen/jit/object_loader.h"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "codegen/jit/outside_functions.h"

namespace fulgurite {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kStubBytes = 16;
constexpr uint64_t kSlotBytes = 8;
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;  // so that 32-bit offsets reach all of it
constexpr uint64_t kNotLoaded = ~uint64_t{0};

template <class... Args>
void check(bool holds, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds) internal_error("object file: {}", fmt::format(text, std::forward<Args>(args)...));
}

uint64_t round_up(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) & ~(alignment - 1);
}

std::string_view bytes_at(std::string_view object, uint64_t offset, uint64_t size) {
  check(offset <= object.size() && size <= object.size() - offset, "ends too early");
  return object.substr(offset, size);
}

template <class T>
std::vector<T> records_at(std::string_view object, uint64_t offset, uint64_t size) {
  const std::string_view bytes = bytes_at(object, offset, size);
  std::vector<T> records(size / sizeof(T));
  bytes.copy(reinterpret_cast<char*>(records.data()), records.size() * sizeof(T));
  return records;
}

struct ObjectFile {
  std::string_view bytes;
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;
  size_t section_names;  // index of a section
  size_t symbol_names;
};

std::string_view name_in(const ObjectFile& file, size_t table, uint64_t offset) {
  check(table < file.sections.size(), "has no table of names");
  const Elf64_Shdr& section = file.sections[table];
  const std::string_view names = bytes_at(file.bytes, section.sh_offset, section.sh_size);
  const size_t end = offset < names.size() ? names.find('\0', offset) : std::string_view::npos;
  check(end != std::string_view::npos, "has a name outside of its table");
  return names.substr(offset, end - offset);
}

ObjectFile parse(std::string_view bytes) {
  const auto header = records_at<Elf64_Ehdr>(bytes, 0, sizeof(Elf64_Ehdr)).front();
  check(!std::memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_ident[EI_CLASS] == ELFCLASS64 &&
            header.e_type == ET_REL && header.e_machine == EM_X86_64 &&
            header.e_shentsize == sizeof(Elf64_Shdr),
        "is no relocatable object for x86-64");
  ObjectFile file{bytes, {}, {}, header.e_shstrndx, 0};
  file.sections =
      records_at<Elf64_Shdr>(bytes, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : file.sections) {
    check(section.sh_type != SHT_REL, "has relocations without addends");
    if (section.sh_type != SHT_SYMTAB) continue;
    file.symbols = records_at<Elf64_Sym>(bytes, section.sh_offset, section.sh_size);
    file.symbol_names = section.sh_link;
  }
  check(!file.symbols.empty(), "has no symbols");
  return file;
}

// Code and stubs, then constants and slots, then writable data, each on pages of its own. Every
// symbol has a slot with its address, and a stub that jumps there: outside functions may be further
// away than a call reaches.
struct Layout {
  std::vector<uint64_t> sections;  // offset of each, or kNotLoaded
  uint64_t stubs = 0, code_end = 0, slots = 0, constants_end = 0, end = 0;
};

enum class Part { kCode, kConstants, kData };

Part part_of(const Elf64_Shdr& section) {
  if (section.sh_flags & SHF_EXECINSTR) return Part::kCode;
  return section.sh_flags & SHF_WRITE ? Part::kData : Part::kConstants;
}

// Kernels neither throw nor are unwound.
bool is_loaded(const ObjectFile& file, const Elf64_Shdr& section) {
  return section.sh_flags & SHF_ALLOC && section.sh_size > 0 &&
         name_in(file, file.section_names, section.sh_name) != ".eh_frame";
}

// Code that a linker arranges to be called before main or after it.
bool runs_by_itself(const ObjectFile& file, const Elf64_Shdr& section) {
  const std::string_view name = name_in(file, file.section_names, section.sh_name);
  return section.sh_type == SHT_INIT_ARRAY || section.sh_type == SHT_FINI_ARRAY ||
         section.sh_type == SHT_PREINIT_ARRAY || name.starts_with(".ctors") ||
         name.starts_with(".dtors");
}

uint64_t place_part(const ObjectFile& file, Part part, uint64_t offset, Layout& layout) {
  for (size_t i = 0; i < file.sections.size(); ++i) {
    const Elf64_Shdr& section = file.sections[i];
    if (!is_loaded(file, section) || part_of(section) != part) continue;
    check(!(section.sh_flags & SHF_TLS), "has thread-local data");
    check(!runs_by_itself(file, section), "has constructors or destructors");
    const uint64_t alignment = std::max<uint64_t>(section.sh_addralign, 1);
    check(alignment <= kPage && !(alignment & (alignment - 1)), "is aligned to {}", alignment);
    check(section.sh_size < kMaxBytes, "is too large");
    offset = round_up(offset, alignment);
    layout.sections[i] = offset;
    offset += section.sh_size;
    check(offset < kMaxBytes, "is too large");
  }
  return offset;
}

Layout lay_out(const ObjectFile& file) {
  const uint64_t symbols = file.symbols.size();
  Layout layout;
  layout.sections.assign(file.sections.size(), kNotLoaded);
  layout.stubs = round_up(place_part(file, Part::kCode, 0, layout), kStubBytes);
  layout.code_end = round_up(layout.stubs + symbols * kStubBytes, kPage);
  layout.slots = round_up(place_part(file, Part::kConstants, layout.code_end, layout), kSlotBytes);
  layout.constants_end = round_up(layout.slots + symbols * kSlotBytes, kPage);
  layout.end = round_up(place_part(file, Part::kData, layout.constants_end, layout), kPage);
  return layout;
}

void copy_sections(const ObjectFile& file, const Layout& layout, uint8_t* base) {
  for (size_t i = 0; i < file.sections.size(); ++i) {
    const Elf64_Shdr& section = file.sections[i];
    if (layout.sections[i] == kNotLoaded || section.sh_type == SHT_NOBITS) continue;
    const std::string_view bytes = bytes_at(file.bytes, section.sh_offset, section.sh_size);
    std::memcpy(base + layout.sections[i], bytes.data(), bytes.size());
  }
}

uint64_t address_of(const ObjectFile& file, const Layout& layout, const Elf64_Sym& symbol,
                    std::string_view name, uint8_t* base) {
  const size_t section = symbol.st_shndx;
  if (section == SHN_ABS) return symbol.st_value;
  if (section != SHN_UNDEF) {
    check(section < file.sections.size(), "has symbol {} in no section", name);
    if (layout.sections[section] == kNotLoaded) return 0;
    check(symbol.st_value <= file.sections[section].sh_size, "has {} outside its section", name);
    return reinterpret_cast<uint64_t>(base) + layout.sections[section] + symbol.st_value;
  }
  if (name.empty()) return 0;
  if (name == "_GLOBAL_OFFSET_TABLE_") return reinterpret_cast<uint64_t>(base) + layout.slots;
  void* function = outside_function(name);
  check(function, "calls {}, which is not among the functions that kernels may call", name);
  return reinterpret_cast<uint64_t>(function);
}

// Writes the slot and the stub of symbol `index`.
void write_indirection(const Layout& layout, uint8_t* base, size_t index, uint64_t address) {
  const uint64_t slot = layout.slots + index * kSlotBytes;
  const uint64_t stub = layout.stubs + index * kStubBytes;
  constexpr uint8_t kJumpThroughSlot[] = {0xFF, 0x25};  // jmp *offset(%rip)
  const auto offset = static_cast<int32_t>(slot - (stub + sizeof kJumpThroughSlot + 4));
  std::memcpy(base + slot, &address, sizeof address);
  std::memcpy(base + stub, kJumpThroughSlot, sizeof kJumpThroughSlot);
  std::memcpy(base + stub + sizeof kJumpThroughSlot, &offset, sizeof offset);
}

void write_32(uint8_t* place, uint64_t value) {
  const auto low = static_cast<int32_t>(value);
  check(static_cast<int64_t>(value) == low, "has a relocation that does not reach its target");
  std::memcpy(place, &low, sizeof low);
}

struct Relocator {
  const ObjectFile& file;
  const Layout& layout;
  uint8_t* base;
  const std::vector<uint64_t>& addresses;  // of the symbols

  void apply(const Elf64_Rela& relocation, size_t section) const {
    const uint32_t type = ELF64_R_TYPE(relocation.r_info);
    const size_t index = ELF64_R_SYM(relocation.r_info);
    const bool wide = type == R_X86_64_64 || type == R_X86_64_PC64;
    const uint64_t bytes = wide ? 8 : 4, size = file.sections[section].sh_size;
    check(index < addresses.size(), "relocates to no symbol");
    check(bytes <= size && relocation.r_offset <= size - bytes, "relocates outside a section");
    uint8_t* place = base + layout.sections[section] + relocation.r_offset;
    const uint64_t from = reinterpret_cast<uint64_t>(place);
    const uint64_t addend = relocation.r_addend;
    switch (type) {
      case R_X86_64_64:
        return write_64(place, addresses[index] + addend);
      case R_X86_64_PC64:
        return write_64(place, addresses[index] + addend - from);
      case R_X86_64_PC32:
        return write_32(place, addresses[index] + addend - from);
      case R_X86_64_PLT32:
        return write_32(place, callee(index) + addend - from);
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        return write_32(place, slot(index) + addend - from);
      default:
        check(false, "has a relocation of type {}", type);
    }
  }

  static void write_64(uint8_t* place, uint64_t value) { std::memcpy(place, &value, 8); }

  uint64_t slot(size_t index) const {
    return reinterpret_cast<uint64_t>(base) + layout.slots + index * kSlotBytes;
  }

  uint64_t callee(size_t index) const {
    if (file.symbols[index].st_shndx != SHN_UNDEF) return addresses[index];
    return reinterpret_cast<uint64_t>(base) + layout.stubs + index * kStubBytes;
  }
};

void relocate(const Relocator& relocator) {
  const ObjectFile& file = relocator.file;
  for (const Elf64_Shdr& section : file.sections) {
    if (section.sh_type != SHT_RELA) continue;
    const size_t target = section.sh_info;
    check(target < file.sections.size(), "relocates no section");
    if (relocator.layout.sections[target] == kNotLoaded) continue;
    for (const auto& r : records_at<Elf64_Rela>(file.bytes, section.sh_offset, section.sh_size))
      relocator.apply(r, target);
  }
}

void protect(uint8_t* base, uint64_t from, uint64_t to, int protection) {
  if (from == to || !mprotect(base + from, to - from, protection)) return;
  user_error("the system refuses executable memory ({}); set FULGURITE_JIT=off to go without",
             std::strerror(errno));
}

}  // namespace

LoadedObject::~LoadedObject() {
  if (base_) munmap(base_, size_);
}

void* LoadedObject::find(std::string_view symbol) const {
  for (const Symbol& s : symbols_)
    if (s.name == symbol) return s.address;
  return nullptr;
}

LoadedObject load_object(std::string_view object) {
  const ObjectFile file = parse(object);
  const Layout layout = lay_out(file);
  void* memory =
      mmap(nullptr, layout.end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(memory != MAP_FAILED, "no memory for it ({})", std::strerror(errno));
  LoadedObject loaded;
  loaded.base_ = memory;
  loaded.size_ = layout.end;
  auto* base = static_cast<uint8_t*>(memory);
  copy_sections(file, layout, base);

  std::vector<uint64_t> addresses(file.symbols.size());
  for (size_t i = 1; i < addresses.size(); ++i) {
    const Elf64_Sym& symbol = file.symbols[i];
    const std::string_view name = name_in(file, file.symbol_names, symbol.st_name);
    addresses[i] = address_of(file, layout, symbol, name, base);
    write_indirection(layout, base, i, addresses[i]);
    const size_t section = symbol.st_shndx;
    if (ELF64_ST_BIND(symbol.st_info) != STB_LOCAL && section != SHN_UNDEF &&
        section < file.sections.size() && layout.sections[section] != kNotLoaded)
      loaded.symbols_.push_back(
          {std::string(name), base + layout.sections[section] + symbol.st_value});
  }
  relocate({file, layout, base, addresses});
  protect(base, 0, layout.code_end, PROT_READ | PROT_EXEC);
  protect(base, layout.code_end, layout.constants_end, PROT_READ);
  return loaded;
}

}  // namespace fulgurite

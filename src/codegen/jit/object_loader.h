// Loads an ELF relocatable object for x86-64, as the compiler plugin writes them, into memory.
//
// It needs no LLVM: a process whose kernels are all in the cache never loads the plugin. Memory is
// never writable and executable at once. What generated code has no use for is refused:
// constructors, thread-local data, relocations of other kinds, functions that outside_functions.h
// does not list.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fulgurite {

class LoadedObject {
 public:
  LoadedObject() = default;
  LoadedObject(LoadedObject&& other) noexcept { swap(other); }
  LoadedObject& operator=(LoadedObject&& other) noexcept {
    swap(other);
    return *this;
  }
  ~LoadedObject();

  // The address of a global symbol, null where there is none of that name. Valid for as long as
  // this object lives.
  void* find(std::string_view symbol) const;

  size_t mapped_bytes() const { return size_; }

 private:
  friend LoadedObject load_object(std::string_view);
  struct Symbol {
    std::string name;
    void* address;
  };

  void swap(LoadedObject& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    std::swap(symbols_, other.symbols_);
  }

  void* base_ = nullptr;
  size_t size_ = 0;
  std::vector<Symbol> symbols_;
};

// `object` is the content of the file; it is not needed afterwards. Throws InternalError, saying
// what was met, for an object that is damaged or has something of the above.
LoadedObject load_object(std::string_view object);

}  // namespace fulgurite

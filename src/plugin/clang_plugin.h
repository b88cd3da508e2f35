/* The C interface of the compiler plugin, libfulgurite_clang.so. Nothing else crosses its border:
 * no C++ types, no exceptions. The library exports one symbol, FULGURITE_CLANG_ENTRY, of the type
 * FulguriteClangEntry. Everything here may be called by several threads at once. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FULGURITE_CLANG_ABI 1u
#define FULGURITE_CLANG_ENTRY "fulgurite_clang_v1"

typedef enum FulguriteClangOutput {
  FULGURITE_CLANG_OBJECT = 0,  /* an ELF relocatable object */
  FULGURITE_CLANG_ASSEMBLY = 1 /* text */
} FulguriteClangOutput;

typedef struct FulguriteClangRequest {
  const char* text; /* C++20 without headers; not terminated by a zero */
  size_t text_size;
  const char* file_name; /* what messages call the text */
  const char* cpu;       /* LLVM's name of a processor; null: this machine's, with its features */
  uint32_t vector_bits;  /* of the widest registers that may be used */
  uint32_t output;       /* a FulguriteClangOutput */
} FulguriteClangRequest;

typedef struct FulguriteClangBytes {
  char* data;
  size_t size;
} FulguriteClangBytes;

typedef struct FulguriteClangResult {
  FulguriteClangBytes output;   /* empty where it failed */
  FulguriteClangBytes messages; /* the compiler's; empty where it succeeded */
  double set_up_ms, front_end_ms, passes_ms, machine_code_ms;
} FulguriteClangResult;

typedef struct FulguriteClang {
  uint32_t abi;        /* FULGURITE_CLANG_ABI of the plugin's build */
  const char* version; /* clang's, for people */
  /* 0 on success. What it fills is given back to `release` in either case. */
  int (*compile)(const FulguriteClangRequest* request, FulguriteClangResult* result);
  void (*release)(FulguriteClangResult* result);
} FulguriteClang;

typedef const FulguriteClang* (*FulguriteClangEntry)(void);

#ifdef __cplusplus
}
#endif

// Linked on a newer distribution, the plugin still asks for no symbol of glibc newer than 2.28, the
// floor of torch's own wheels: the linker sends each newer one here (--wrap, from old_glibc.wraps),
// and it is served by the symbol's first version. For x86-64.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

#define FIRST_VERSION(result, name, parameters, arguments)  \
  extern "C" result first_##name parameters;                \
  __asm__(".symver first_" #name "," #name "@GLIBC_2.2.5"); \
  extern "C" result __wrap_##name parameters;               \
  extern "C" result __wrap_##name parameters { return first_##name arguments; }

FIRST_VERSION(double, exp, (double x), (x))
FIRST_VERSION(double, exp2, (double x), (x))
FIRST_VERSION(double, log, (double x), (x))
FIRST_VERSION(double, log2, (double x), (x))
FIRST_VERSION(double, pow, (double x, double y), (x, y))
FIRST_VERSION(int, pthread_create,
              (pthread_t * t, const pthread_attr_t* a, void* (*f)(void*), void* x), (t, a, f, x))
FIRST_VERSION(int, pthread_join, (pthread_t t, void** result), (t, result))
FIRST_VERSION(int, pthread_once, (pthread_once_t * once, void (*f)()), (once, f))
FIRST_VERSION(int, __pthread_key_create, (pthread_key_t * key, void (*f)(void*)), (key, f))
FIRST_VERSION(int, pthread_attr_setstacksize, (pthread_attr_t * a, size_t n), (a, n))
FIRST_VERSION(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
FIRST_VERSION(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
FIRST_VERSION(int, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock))
FIRST_VERSION(int, pthread_sigmask, (int how, const sigset_t* set, sigset_t* old), (how, set, old))
FIRST_VERSION(void*, dlopen, (const char* file, int mode), (file, mode))
FIRST_VERSION(void*, dlsym, (void* library, const char* name), (library, name))
FIRST_VERSION(int, dlclose, (void* library), (library))
FIRST_VERSION(char*, dlerror, (), ())

extern "C" {

int __xstat(int version, const char* path, struct stat* status);
int __lxstat(int version, const char* path, struct stat* status);
int __fxstat(int version, int file, struct stat* status);
int __wrap_stat(const char* path, struct stat* status) { return __xstat(1, path, status); }
int __wrap_lstat(const char* path, struct stat* status) { return __lxstat(1, path, status); }
int __wrap_fstat(int file, struct stat* status) { return __fxstat(1, file, status); }
int __wrap_fstat64(int file, struct stat* status) { return __fxstat(1, file, status); }

uint32_t __wrap_arc4random() {
  uint32_t value = 0;
  (void)!getrandom(&value, sizeof value, 0);
  return value;
}

// For statistics alone.
struct mallinfo2 __wrap_mallinfo2() { return {}; }

// Not found: the unwinder then looks through dl_iterate_phdr.
int __wrap__dl_find_object(void*, void*) { return -1; }

// "There may be other threads" is always safe to say.
__attribute__((visibility("hidden"))) char __wrap___libc_single_threaded = 0;

}  // extern "C"

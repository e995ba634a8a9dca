// operator new and delete for the code of this shared object, which must not call the program's
// own: exports.cc has the names for everybody, and the linker gives this object's references these
// instead (--wrap). Cold; may throw, here alone.
#include <cstdlib>

#include "preload/operator_functions.h"

namespace {

void* take(std::size_t size, const std::nothrow_t&) {
  return std::malloc(size == 0 ? 1 : size);
}

void* take(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) {
  void* block = nullptr;
  return posix_memalign(&block, static_cast<std::size_t>(alignment), size == 0 ? 1 : size) == 0
             ? block
             : nullptr;
}

void* or_throw(void* block) {
  if (block == nullptr) {
    throw std::bad_alloc();
  }
  return block;
}

void* take(std::size_t size) {
  return or_throw(take(size, std::nothrow));
}

void* take(std::size_t size, std::align_val_t alignment) {
  return or_throw(take(size, alignment, std::nothrow));
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
#define OWN_NEW(name, parameters, arguments) \
  extern "C" void* __wrap_##name parameters; \
  void* __wrap_##name parameters {           \
    return take arguments;                   \
  }
#define OWN_DELETE(name, parameters)        \
  extern "C" void __wrap_##name parameters; \
  void __wrap_##name parameters {           \
    std::free(pointer);                     \
  }

OWN_NEW(_Znwm, (std::size_t size), (size))
OWN_NEW(_Znam, (std::size_t size), (size))
OWN_NEW(_ZnwmRKSt9nothrow_t, (std::size_t size, const std::nothrow_t& tag), (size, tag))
OWN_NEW(_ZnamRKSt9nothrow_t, (std::size_t size, const std::nothrow_t& tag), (size, tag))
OWN_NEW(_ZnwmSt11align_val_t, (std::size_t size, std::align_val_t alignment), (size, alignment))
OWN_NEW(_ZnamSt11align_val_t, (std::size_t size, std::align_val_t alignment), (size, alignment))
OWN_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t,
        (std::size_t size, std::align_val_t alignment, const std::nothrow_t& tag),
        (size, alignment, tag))
OWN_NEW(_ZnamSt11align_val_tRKSt9nothrow_t,
        (std::size_t size, std::align_val_t alignment, const std::nothrow_t& tag),
        (size, alignment, tag))
OWN_DELETE(_ZdlPv, (void* pointer))
OWN_DELETE(_ZdaPv, (void* pointer))
OWN_DELETE(_ZdlPvm, (void* pointer, std::size_t))
OWN_DELETE(_ZdaPvm, (void* pointer, std::size_t))
OWN_DELETE(_ZdlPvRKSt9nothrow_t, (void* pointer, const std::nothrow_t&))
OWN_DELETE(_ZdaPvRKSt9nothrow_t, (void* pointer, const std::nothrow_t&))
OWN_DELETE(_ZdlPvSt11align_val_t, (void* pointer, std::align_val_t))
OWN_DELETE(_ZdaPvSt11align_val_t, (void* pointer, std::align_val_t))
OWN_DELETE(_ZdlPvmSt11align_val_t, (void* pointer, std::size_t, std::align_val_t))
OWN_DELETE(_ZdaPvmSt11align_val_t, (void* pointer, std::size_t, std::align_val_t))
OWN_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t,
           (void* pointer, std::align_val_t, const std::nothrow_t&))
OWN_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t,
           (void* pointer, std::align_val_t, const std::nothrow_t&))
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

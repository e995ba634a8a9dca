// operator new and delete for the code of this shared object, which must not call the program's
// own: exports.cc has the names for everybody, and the linker gives this object's references these
// instead (--wrap). Cold; may throw, here alone.
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

void* own(std::size_t size, const std::nothrow_t&) {
  return std::malloc(size == 0 ? 1 : size);
}

void* own(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) {
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

void* own(std::size_t size) {
  return or_throw(own(size, std::nothrow));
}

void* own(std::size_t size, std::align_val_t alignment) {
  return or_throw(own(size, alignment, std::nothrow));
}

template <typename... More>
void own(void* pointer, const More&...) {
  std::free(pointer);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
#define OPERATOR(name, kind, result, parameters, arguments) \
  extern "C" result __wrap_##name parameters;               \
  result __wrap_##name parameters {                         \
    return own arguments;                                   \
  }
#include "preload/hooks.def"
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

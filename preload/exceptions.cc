// Memory for the library's own exceptions. libstdc++ takes it by malloc, and a reserve for it by
// malloc at load: refused there, the first bad_alloc ends the process (std::terminate). Here a few
// places lie in the library itself, so that a lack of memory is survived from the start, and no
// process pays for a reserve. Hidden: the program's exceptions are not these. Any thread.
//
// The other C++ library, which the wheels are linked with, has its reserve in itself (libc++abi,
// fallback_malloc.cpp), and all of this in one file with what throws: there nothing is put in its
// place.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __GLIBCXX__

namespace {

// What lies before the thrown object: __cxa_refcounted_exception of libstdc++ with pointers of 64
// bits, whose fields the Itanium C++ ABI lists.
constexpr std::size_t kHeader = 128;
static_assert(sizeof(void*) == 8);

// Each thread of ours plans or writes one thing at a time and throws one exception at a time. More
// at once come from malloc.
struct Place {
  alignas(16) char bytes[kHeader + 128];
};
constexpr std::size_t kPlaces = 16;

// Apart from the one global: it is the C++ runtime's.
struct Places {
  Place all[kPlaces] = {};
  std::atomic<bool> taken[kPlaces] = {};
};
constinit Places places;

// Zeroed; the process ends if there is none, as the standard asks.
void* allocate(std::size_t bytes) noexcept {
  void* found = nullptr;
  for (std::size_t i = 0; bytes <= sizeof(Place) && found == nullptr && i < kPlaces; ++i) {
    if (!places.taken[i].exchange(true, std::memory_order_acquire)) {
      found = &places.all[i];
    }
  }
  if (found == nullptr) {
    found = std::malloc(bytes);
  }
  if (found == nullptr) {
    std::abort();
  }
  std::memset(found, 0, bytes);
  return found;
}

void release(void* start) noexcept {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(start) - reinterpret_cast<std::uintptr_t>(places.all);
  if (offset < sizeof places.all) {
    places.taken[offset / sizeof(Place)].store(false, std::memory_order_release);
  } else {
    std::free(start);
  }
}

}  // namespace

// Of libstdc++'s eh_alloc.cc what is used here, so that the linker leaves that file out.
extern "C" {
void* __cxa_allocate_exception(std::size_t bytes) noexcept {
  return static_cast<char*>(allocate(kHeader + bytes)) + kHeader;
}
void __cxa_free_exception(void* object) noexcept {
  release(static_cast<char*>(object) - kHeader);
}
}

#endif

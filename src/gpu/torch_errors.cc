// See torch_errors.h. Cold.
//
// Nothing here is compiled against torch: its classes are reached by their mangled names, which are
// the same in all builds of torch for Linux since 2.0. The object is made by c10::Error's own
// constructor and gets the subclass' virtual table, which has no fields of its own.
// Throwing goes through the C++ library that torch uses, and not through the one linked in here.
#include "src/gpu/torch_errors.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace memo::gpu {
namespace {

// std::string as libstdc++ has had it since 2015.
struct ForeignText {
  const char* data;
  std::size_t size;
  char small[16];
};
// c10::SourceLocation.
struct ForeignPlace {
  const char* function;
  const char* file;
  std::uint32_t line;
};

struct Names {
  void* (*allocate)(std::size_t);
  void (*free)(void*);
  void (*raise)(void*, void*, void (*)(void*));
  void (*construct)(void*, ForeignPlace, const ForeignText*);
  void (*destroy)(void*);
  void* type;
  void** table;
};

bool find(Names& names, bool memory) {
  void* library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* core = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
  // The subclass' table is in the libraries that throw it.
  void* cuda = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr || core == nullptr) {
    return false;
  }
  const auto symbol = [&](void* first, void* second, const char* name) {
    void* found = dlsym(first, name);
    return found != nullptr || second == nullptr ? found : dlsym(second, name);
  };
  names.allocate =
      reinterpret_cast<decltype(names.allocate)>(dlsym(library, "__cxa_allocate_exception"));
  names.free = reinterpret_cast<decltype(names.free)>(dlsym(library, "__cxa_free_exception"));
  names.raise = reinterpret_cast<decltype(names.raise)>(dlsym(library, "__cxa_throw"));
  names.construct = reinterpret_cast<decltype(names.construct)>(
      dlsym(core,
            "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcE"
            "SaIcEEE"));
  if (names.construct == nullptr) {
    names.construct = reinterpret_cast<decltype(names.construct)>(
        dlsym(core,
              "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcE"
              "SaIcEEE"));
  }
  names.type = symbol(core, cuda, memory ? "_ZTIN3c1016OutOfMemoryErrorE" : "_ZTIN3c105ErrorE");
  names.table = static_cast<void**>(
      symbol(core, cuda, memory ? "_ZTVN3c1016OutOfMemoryErrorE" : "_ZTVN3c105ErrorE"));
  if (names.table == nullptr) {
    return false;
  }
  names.table += 2;  // behind the offset and the type: the destructor comes first
  names.destroy = reinterpret_cast<decltype(names.destroy)>(names.table[0]);
  return names.allocate != nullptr && names.free != nullptr && names.raise != nullptr &&
         names.construct != nullptr && names.destroy != nullptr && names.type != nullptr;
}

}  // namespace

void throw_as_torch(const char* text, bool memory) {
  Names names;
  if (!find(names, memory)) {
    return;
  }
  constexpr std::size_t kRoom = 1024;  // c10::Error has some 200 bytes
  const std::size_t size = std::strlen(text);
  void* object = names.allocate(kRoom);
  auto* copy = static_cast<char*>(std::malloc(size + 1));
  if (copy == nullptr) {
    names.free(object);
    return;
  }
  std::memset(object, 0, kRoom);
  std::memcpy(copy, text, size + 1);
  // The constructor takes the text over; what it leaves in `given` needs no destructor.
  ForeignText given{copy, size, {}};
  std::memcpy(given.small, &size, sizeof size);  // how much of it there is room for
  names.construct(object, {"memomalloc", "memomalloc", 0}, &given);
  *static_cast<void***>(object) = names.table;
  names.raise(object, names.type, names.destroy);
}

}  // namespace memo::gpu

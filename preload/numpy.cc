// What numpy takes its arrays' memory by, in the form that numpy asks for (NEP 49). Hot.
//
// numpy from 2.5 on asks CPython for raw memory, which a free-threaded CPython from 3.15 on takes
// from a mimalloc of its own: no array reaches malloc then. Its interface for handlers brings them
// back; the Python module hands it this one (python/memomalloc/numpy.py).
#include <cstddef>
#include <cstdint>

#include "memomalloc/memomalloc.h"
#include "preload/shim.h"

namespace memo {
namespace {

// numpy's PyDataMem_Handler of version 1, as its headers lay it out; part of its stable interface.
struct NumpyHandler {
  char name[127];
  std::uint8_t version;
  void* context;
  void* (*malloc)(void* context, std::size_t size);
  void* (*calloc)(void* context, std::size_t count, std::size_t size);
  void* (*realloc)(void* context, void* pointer, std::size_t size);
  void (*free)(void* context, void* pointer, std::size_t size);
};

// The sizes that numpy tells at a free are not checked: it tells those of the arrays, which may be
// others than were asked for.
constexpr NumpyHandler kHandler = {
    "memomalloc",
    1,
    nullptr,
    [](void*, std::size_t size) { return shim::malloc(size); },
    [](void*, std::size_t count, std::size_t size) { return shim::calloc(count, size); },
    [](void*, void* pointer, std::size_t size) { return shim::realloc(pointer, size); },
    [](void*, void* pointer, std::size_t) { shim::free(pointer); },
};

}  // namespace
}  // namespace memo

extern "C" [[gnu::visibility("default")]] const void* memomalloc_numpy_handler() {
  return &memo::kHandler;
}

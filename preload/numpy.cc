#include "preload/numpy.h"

#include "preload/shim.h"

namespace memo {
namespace {

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

const NumpyHandler& numpy_handler() {
  return kHandler;
}

}  // namespace memo

// What numpy takes its arrays' memory by, in the form that numpy asks for (NEP 49). Hot.
//
// numpy from 2.5 on asks CPython for raw memory, which a free-threaded CPython from 3.15 on takes
// from a mimalloc of its own: no array reaches malloc then. Its interface for handlers brings them
// back; the Python module hands it this one (python/memomalloc/numpy.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace memo {

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

// A constant.
const NumpyHandler& numpy_handler();

}  // namespace memo

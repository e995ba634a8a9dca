// A stand-in for libtorch_cpu: calls libc10's functions from another object, and hands one of them
// out as a deleter.
#include <cstddef>

#ifdef renamed
#define free_cpu give_back_cpu
#endif

namespace c10 {
void* alloc_cpu(std::size_t size);
void free_cpu(void* block);
}  // namespace c10

extern "C" void* tensor_elsewhere(std::size_t size) {
  return c10::alloc_cpu(size);
}
extern "C" void release_elsewhere(void* block) {
  c10::free_cpu(block);
}
using Deleter = void (*)(void*);
extern "C" Deleter deleter_elsewhere() {
  return c10::free_cpu;
}

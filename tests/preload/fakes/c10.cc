// A stand-in for torch's libc10: its two functions for tensors, called through the dynamic linker.
// As on x86-64 it asks posix_memalign; as `hidden` it has an allocator of its own, as on AArch64,
// which ends the process on a block that is not its own. As `flagless` and `renamed` it is a hidden one of another
// release: without the flags that are known, or with another name of the function that frees.
#include <sys/mman.h>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#if defined flagless || defined renamed
#define hidden
#endif
#ifdef flagless
#define FLAGS_caffe2_cpu_allocator_do_zero_fill zero_fill_of_another_release
#define FLAGS_caffe2_cpu_allocator_do_junk_fill junk_fill_of_another_release
#endif
#ifdef renamed
#define free_cpu give_back_cpu
#endif

// NOLINTBEGIN(readability-identifier-naming): torch's names
bool FLAGS_caffe2_cpu_allocator_do_zero_fill = false;
bool FLAGS_caffe2_cpu_allocator_do_junk_fill = false;
// NOLINTEND(readability-identifier-naming)

namespace {

constexpr std::size_t kAlignment = 64;
std::size_t asked = 0;  // blocks that this copy was asked for
std::size_t freed = 0;

#ifdef hidden
constexpr const char* kFailure = "hidden: no memory";
constexpr std::uint64_t kOwn = 0x5A3C;

struct Header {
  std::uint64_t own;
  std::size_t mapped;
  std::uint64_t pad[6];
};
static_assert(sizeof(Header) == kAlignment);

void* own_block(std::size_t size) {
  const std::size_t mapped = size + sizeof(Header);
  void* pages = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    return nullptr;
  }
  auto* header = static_cast<Header*>(pages);
  header->own = kOwn;
  header->mapped = mapped;
  return header + 1;
}

void own_free(void* block) {
  Header* header = static_cast<Header*>(block) - 1;
  if (reinterpret_cast<std::uintptr_t>(header) % 4096 != 0 || header->own != kOwn) {
    std::abort();
  }
  munmap(header, header->mapped);
}
#else
constexpr const char* kFailure = "plain: no memory";

void* own_block(std::size_t size) {
  void* block = nullptr;
  return posix_memalign(&block, kAlignment, size) == 0 ? block : nullptr;
}

void own_free(void* block) {
  std::free(block);
}
#endif

}  // namespace

namespace c10 {

void* alloc_cpu(std::size_t size) {
  if (size == 0) {
    return nullptr;
  }
  ++asked;
  void* block = size <= PTRDIFF_MAX ? own_block(size) : nullptr;
  if (block == nullptr) {
    throw std::runtime_error(kFailure);
  }
  if (FLAGS_caffe2_cpu_allocator_do_zero_fill || FLAGS_caffe2_cpu_allocator_do_junk_fill) {
    std::memset(block, FLAGS_caffe2_cpu_allocator_do_zero_fill ? 0 : 0x7F, size);
  }
  return block;
}

void free_cpu(void* block) {
  if (block != nullptr) {
    ++freed;
    own_free(block);
  }
}

}  // namespace c10

// What torch's allocator in the same object does.
extern "C" void* tensor_of(std::size_t size) {
  return c10::alloc_cpu(size);
}
extern "C" void release_tensor(void* block) {
  c10::free_cpu(block);
}
extern "C" std::size_t tensors_asked() {
  return asked;
}
extern "C" std::size_t tensors_freed() {
  return freed;
}

// Over-aligned objects: their operator delete may be one that takes its own allocator's blocks alone.
#include <cstdio>
#include <cstring>

struct alignas(4096) Large {
  char bytes[200000];
};

int main() {
  for (int i = 0; i < 300; ++i) {
    auto* large = new Large;
    std::memset(large->bytes, i, sizeof large->bytes);
    delete large;
  }
  return std::puts("kept") < 0;
}

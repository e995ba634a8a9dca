// Over-aligned objects: their operator delete may be one that takes its own allocator's blocks alone.
#include <cstdio>
#include <cstring>

struct alignas(4096) Large {
  char bytes[200000];
};

Large* volatile kept;  // so that the compiler cannot leave out the pairs of new and delete

int main() {
  for (int i = 0; i < 300; ++i) {
    Large* large = new Large;
    std::memset(large->bytes, i, sizeof large->bytes);
    kept = large;
    if (kept->bytes[199999] != static_cast<char>(i)) {
      return 1;
    }
    delete kept;
  }
  return std::puts("kept") < 0;
}

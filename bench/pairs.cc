// A number of malloc+free pairs of one size, and nothing else: for counting instructions of a pair
// as the difference of two runs (bench/micro.py, callgrind).   pairs BYTES COUNT
#include <cstdio>
#include <cstdlib>

int main(int count_of_arguments, char** arguments) {
  if (count_of_arguments != 3) {
    std::fputs("usage: pairs BYTES COUNT\n", stderr);
    return 2;
  }
  const std::size_t bytes = std::strtoull(arguments[1], nullptr, 10);
  const unsigned long long count = std::strtoull(arguments[2], nullptr, 10);
  for (unsigned long long i = 0; i < count; ++i) {
    void* volatile block = std::malloc(bytes);  // volatile: an unused pair would be deleted
    std::free(block);
  }
  return 0;
}

// dl_iterate_phdr as the host's code uses it: the walk is complete, its result is passed on,
// callbacks allocate, and an exception that a callback throws arrives, after which walks and
// allocations go on.
#include <link.h>

#include <string>
#include <vector>

#include "support.h"

namespace {

int count_modules(dl_phdr_info* info, std::size_t, void* data) {
  auto* names = static_cast<std::vector<std::string>*>(data);
  names->emplace_back(info->dlpi_name);
  void* blocks[kStepCount];
  take_steps(blocks);
  free_steps(blocks);
  return 0;
}

int stop_at_once(dl_phdr_info*, std::size_t, void*) {
  return 42;
}

int throw_out(dl_phdr_info*, std::size_t, void* data) {
  std::vector<char> large(KIB(300), 'x');
  throw static_cast<int>(large.size()) + *static_cast<int*>(data);
}

}  // namespace

int main() {
  const int walks = static_cast<int>(repeated(40, 6));
  for (int i = 0; i < walks; ++i) {
    std::vector<std::string> names;
    CHECK(dl_iterate_phdr(count_modules, &names) == 0);
    CHECK(names.size() > 2);
    CHECK(dl_iterate_phdr(stop_at_once, nullptr) == 42);
    int caught = 0;
    try {
      dl_iterate_phdr(throw_out, &i);
    } catch (int value) {
      caught = value;
    }
    CHECK(caught == static_cast<int>(KIB(300)) + i);
    learn_steps();
  }
  void* blocks[kStepCount];
  take_served_steps(blocks);
  free_steps(blocks);
  printf("module walk ok\n");
  return 0;
}

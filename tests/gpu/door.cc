// What a program does with libmemomalloc-cuda.so, called as torch calls it, over a driver that is
// none: `door LIBRARY WHAT [ITERATIONS [DEVICE]]`. Prints one line; tests/cli/test_cuda.py reads
// it.
#include <dlfcn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

void* g_library = nullptr;

template <typename Function>
Function find(const char* name) {
  void* found = dlsym(g_library, name);
  if (found == nullptr) {
    std::printf("no %s\n", name);
    std::exit(3);
  }
  return reinterpret_cast<Function>(found);
}

void* take(ssize_t size, int device = 0, std::uint64_t stream = 0) {
  static const auto function = find<void* (*)(ssize_t, int, void*)>("memomalloc_cuda_malloc");
  return function(size, device, reinterpret_cast<void*>(stream));
}
void give(void* pointer, ssize_t size = 0, int device = 0) {
  static const auto function = find<void (*)(void*, ssize_t, int, void*)>("memomalloc_cuda_free");
  function(pointer, size, device, nullptr);
}
std::string statistics(int device = 0) {
  char text[16384];
  find<std::size_t (*)(int, char*, std::size_t)>("memomalloc_cuda_stats_json")(device, text,
                                                                               sizeof text);
  return text;
}

// A loop of blocks, each filled with its number: what is read later is what was written.
int loop(int iterations, int device) {
  std::mt19937 random(7);
  for (int i = 0; i < iterations; ++i) {
    std::vector<std::pair<unsigned char*, std::size_t>> alive;
    for (int k = 0; k < 10; ++k) {
      const std::size_t bytes = (std::size_t{1} << 20) * static_cast<std::size_t>(1 + k * 7 % 5);
      auto* block = static_cast<unsigned char*>(take(static_cast<ssize_t>(bytes), device));
      if (block == nullptr) {
        std::puts("no memory");
        return 1;
      }
      std::memset(block, k + i % 100, bytes);
      alive.emplace_back(block, bytes);
      if (alive.size() > 3) {
        auto [first, size] = alive.front();
        for (std::size_t at = 0; at < size; at += 4096) {
          if (first[at] != k - 3 + i % 100) {
            std::puts("overwritten");
            return 1;
          }
        }
        give(first, static_cast<ssize_t>(size), device);
        alive.erase(alive.begin());
      }
    }
    for (auto [block, size] : alive) {
      give(block, static_cast<ssize_t>(size), device);
    }
  }
  std::puts(statistics(device).c_str());
  return 0;
}

// A loop on the first device and in the processor's memory, a block alive on the second; goes on
// until nothing more is to be read.
int hold() {
  const int result = loop(60, 0);
  take(7 << 20, 1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::vector<char>> blocks;
    for (std::size_t k = 1; k < 6; ++k) {
      blocks.emplace_back(k * 100000);
    }
  }
  std::fflush(stdout);
  char byte = 0;
  while (read(0, &byte, 1) > 0) {
  }
  return result;
}

// Shows a device that another allocator serves.
int observed() {
  const std::uint64_t figures[5] = {500 << 20, 900 << 20, 300 << 20, 600 << 20, 620 << 20};
  find<void (*)(int, const std::uint64_t*)>("memomalloc_cuda_observed")(1, figures);
  char byte = 0;
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}

int threads() {
  std::atomic<bool> right{true};
  std::vector<std::thread> all;
  for (std::uint64_t number = 1; number <= 4; ++number) {
    all.emplace_back([number, &right] {
      for (int i = 0; i < 300; ++i) {
        const auto bytes = static_cast<ssize_t>((number + static_cast<std::uint64_t>(i) % 5) << 19);
        auto* block = static_cast<unsigned char*>(take(bytes, 0, number * 16));
        if (block == nullptr) {
          right = false;
          return;
        }
        std::memset(block, static_cast<int>(number), static_cast<std::size_t>(bytes));
        if (block[bytes / 2] != number) {
          right = false;
        }
        give(block, bytes);
      }
    });
  }
  for (auto& one : all) {
    one.join();
  }
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}

int asleep() {
  auto* block = static_cast<unsigned char*>(take(5 << 20));
  std::memset(block, 77, 5 << 20);
  const int slept = find<int (*)(int, int)>("memomalloc_cuda_sleep")(-1, 1);
  const bool empty = statistics().find("\"reserved_bytes.all.current\":0,") != std::string::npos;
  const int woke = find<int (*)(int)>("memomalloc_cuda_wake")(-1);
  const bool kept = block[0] == 77 && block[(5 << 20) - 1] == 77;
  std::printf("%d %d %d %d\n", slept, empty, woke, kept);
  return 0;
}

int forked() {
  give(take(1 << 20));
  const pid_t child = fork();
  if (child == 0) {
    _exit(take(1 << 20) == nullptr ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  void* after = take(1 << 20);
  std::printf("child %d, parent %s\n", status, after != nullptr ? "goes on" : "broken");
  return 0;
}

// The child is forked while another thread is in the library.
int forked_in_a_call() {
  give(take(1 << 20));
  std::thread other([] { take(60 << 20); });
  usleep(100000);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    const std::string figures = statistics();
    find<void (*)(int)>("memomalloc_cuda_release")(-1);
    find<void (*)()>("memomalloc_cuda_reset")();
    find<void (*)(void*, void*)>("memomalloc_cuda_record_stream")(nullptr, nullptr);
    find<void (*)(double, int)>("memomalloc_cuda_memory_fraction")(0.5, 0);
    _exit(figures == "{}" ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  other.join();
  std::printf("child %d\n", status);
  return 0;
}

// The child is forked before there is a block: it has the GPU for itself.
int forked_before() {
  find<const char* (*)()>("memomalloc_cuda_problem")();
  const pid_t child = fork();
  if (child == 0) {
    _exit(take(1 << 20) != nullptr ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", status);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    return 2;
  }
  g_library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (g_library == nullptr) {
    std::puts(dlerror());
    return 3;
  }
  const std::string what = argv[2];
  if (what == "loop") {
    return loop(argc > 3 ? std::atoi(argv[3]) : 60, argc > 4 ? std::atoi(argv[4]) : 0);
  }
  if (what == "hold") {
    return hold();
  }
  if (what == "observed") {
    return observed();
  }
  if (what == "threads") {
    return threads();
  }
  if (what == "asleep") {
    return asleep();
  }
  if (what == "forked") {
    return forked();
  }
  if (what == "forked in a call") {
    return forked_in_a_call();
  }
  if (what == "forked before") {
    return forked_before();
  }
  void* one = take(4 << 20);
  if (what == "twice") {
    give(one);
    give(one);
  } else if (what == "unknown") {
    give(static_cast<char*>(one) + 512);
  } else if (what == "device") {
    give(one, 4 << 20, 1);
  } else if (what == "refused") {
    void* none = take(ssize_t{1} << 42);
    void* again = take(4 << 20);
    std::printf("%s %s\n", none == nullptr ? "null" : "block", again == nullptr ? "null" : "block");
  } else if (what == "thrown") {
    dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL);
    try {
      take(ssize_t{1} << 42);
    } catch (const std::exception& error) {
      std::printf("%s\n", error.what());
    }
  } else if (what == "nothing") {
    std::printf("%s\n", one == nullptr ? "null" : "block");
  }
  return 0;
}

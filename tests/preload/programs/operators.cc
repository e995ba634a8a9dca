// operator new and delete in every form, with the new_handler's protocol and exceptions through our
// frames.
#include <dlfcn.h>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "support.h"

namespace {

struct alignas(256) Wide {
  unsigned char bytes[KIB(96)];
};

bool aligned(const void* block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

void plain_and_array() {
  for (std::size_t size : {std::size_t{1}, KIB(20), KIB(64), KIB(200)}) {
    void* first = ::operator new(size);
    void* second = ::operator new[](size);
    CHECK(first && second);
    if (size >= 16)
      CHECK(aligned(first, 16) && aligned(second, 16));
    fill(first, size, 1);
    fill(second, size, 2);
    CHECK(filled(first, size, 1) && filled(second, size, 2));
    ::operator delete(first);
    ::operator delete[](second);
    ::operator delete(::operator new(size), size);
    ::operator delete[](::operator new[](size), size);
  }
}

void nothrow() {
  void* first = ::operator new(KIB(128), std::nothrow);
  void* second = ::operator new[](KIB(129), std::nothrow);
  CHECK(first && second);
  ::operator delete(first, std::nothrow);
  ::operator delete[](second, std::nothrow);
}

void over_aligned() {
  for (std::size_t alignment = 32; alignment <= 8192; alignment *= 4) {
    const auto value = std::align_val_t{alignment};
    void* first = ::operator new(KIB(100), value);
    void* second = ::operator new[](KIB(100), value, std::nothrow);
    CHECK(aligned(first, alignment) && aligned(second, alignment));
    ::operator delete(first, KIB(100), value);
    ::operator delete[](second, value, std::nothrow);
  }
  auto wide = std::make_unique<Wide[]>(2);
  CHECK(aligned(wide.get(), 256));
}

int handler_calls = 0;
void handler() {
  if (++handler_calls == 3)
    std::set_new_handler(nullptr);
}

// volatile: the compiler must not reason about a size that no object can have.
volatile std::size_t impossible = PTRDIFF_MAX;

void new_handler_is_asked_until_it_is_gone() {
  void* before = ::operator new(KIB(90));
  handler_calls = 0;
  std::set_new_handler(handler);
  bool thrown = false;
  try {
    ::operator delete(::operator new(impossible));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown && handler_calls == 3);
  handler_calls = 0;
  std::set_new_handler(handler);
  CHECK(::operator new(impossible, std::nothrow) == nullptr);
  CHECK(handler_calls == 3);
  ::operator delete(before);
}

void throwing_handler() {
  std::set_new_handler([] { throw std::bad_alloc(); });
  void* before = ::operator new(KIB(95));
  int caught = 0;
  try {
    ::operator delete[](::operator new[](impossible, std::align_val_t{64}), std::align_val_t{64});
  } catch (const std::bad_alloc&) {
    ++caught;
  }
  CHECK(::operator new(impossible, std::nothrow) == nullptr);
  std::set_new_handler(nullptr);
  CHECK(caught == 1);
  ::operator delete(before);
}

struct Throws {
  std::vector<char> body = std::vector<char>(KIB(150));
  explicit Throws(bool now) {
    if (now)
      throw 7;
  }
};

// An exception half way through an iteration frees what was built so far.
void exceptions_unwind_large_objects() {
  std::string text(KIB(80), 'x');
  int caught = 0;
  for (int i = 0; i < 2; ++i) {
    try {
      auto first = std::make_unique<Throws>(false);
      auto second = std::make_unique<Throws>(i == 1);
      text += second->body[0];
    } catch (int value) {
      caught += value;
    }
  }
  CHECK(caught == 7 && text.size() == KIB(80) + 1);
}

// malloc'ed memory may be given to free by C code that got it from operator new's malloc, and the
// reverse holds for containers that grow through realloc-like steps.
void containers_grow() {
  std::vector<unsigned> numbers;
  for (unsigned i = 0; i < 200000; ++i)
    numbers.push_back(i);
  for (unsigned i = 0; i < 200000; ++i)
    CHECK(numbers[i] == i);
  numbers.shrink_to_fit();
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text.append(100, static_cast<char>('a' + i % 26));
  CHECK(text.size() == 300000 && text[299999] == 'a' + 2999 % 26);
}

// What is loaded later finds the C++ library's, which call malloc, unless the underlying allocator has its own.
void names_lead_to_one_library() {
  Dl_info info{};
  void* code = dlsym(RTLD_DEFAULT, "_Znwm");
  CHECK(code && dladdr(code, &info) != 0);
  if (memomalloc_version && getenv("NEXT_ALLOCATOR"))
    CHECK((strstr(info.dli_fname, "libmemomalloc") != nullptr) == !on_glibc());
}

}  // namespace

int main() {
  static const test_case cases[] = {
      CASE(plain_and_array, 4),  CASE(nothrow, 2),
      CASE(over_aligned, 4),     CASE(new_handler_is_asked_until_it_is_gone, 1),
      CASE(throwing_handler, 1), CASE(exceptions_unwind_large_objects, 2),
      CASE(containers_grow, 2),  CASE(names_lead_to_one_library, 0),
  };
  return RUN_CASES(cases);
}

// See driver.h. Cold.
#include "src/gpu/driver.h"

#include <dlfcn.h>

namespace memo::gpu {

std::string Driver::load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return "there is no CUDA driver (libcuda.so.1)";
  }
#define DRIVER(name, symbol, parameters)                            \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #symbol)); \
  if (name == nullptr) {                                            \
    return "the CUDA driver is too old: it has no " #symbol;        \
  }
#include "src/gpu/driver.def"
#undef DRIVER
  return "";
}

std::string Driver::start() const {
  const int error = init(0);
  return error == kSuccess ? "" : "the CUDA driver does not start: " + name_of(error);
}

std::string Driver::name_of(int error) const {
  const char* name = nullptr;
  return error_name(error, &name) == kSuccess && name != nullptr ? name : std::to_string(error);
}

Scope::Scope(const Driver& driver, Context context)
    : driver_(driver), pushed_(driver.push_context(context) == kSuccess) {
  driver_.exchange_capture_mode(&mode_);
}

Scope::~Scope() {
  driver_.exchange_capture_mode(&mode_);
  if (pushed_) {
    Context context = nullptr;
    driver_.pop_context(&context);
  }
}

}  // namespace memo::gpu

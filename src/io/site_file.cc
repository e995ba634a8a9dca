// Names for the stack hashes of a trace, by dladdr: what modules export, without debug information.
// Cold.
#include "src/io/export.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <algorithm>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/io/replace_file.h"
#include "src/trace/site_log.h"

namespace memo {
namespace {

constexpr int kShownFrames = 8;  // with fewer, different callers of a tensor library look alike

std::string_view file_name(const Dl_info& module) {
  return last_part(module.dli_fname != nullptr ? module.dli_fname : "?");
}

// Frames that are in every stack and tell nothing.
bool is_plumbing(std::string_view module) {
  return module.starts_with("libmemomalloc") || module.starts_with("libc.so");
}

std::string symbol_of(const Dl_info& module) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(module.dli_sname, nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : module.dli_sname;
  std::free(demangled);
  // Parameters make names long and tell little.
  return name.substr(0, name.find('('));
}

std::string place_of(const void* address, const Dl_info& module) {
  char offset[32];
  const auto distance =
      static_cast<const char*>(address) - static_cast<const char*>(module.dli_fbase);
  std::snprintf(offset, sizeof offset, "+0x%tx", distance);
  return std::string(file_name(module)) + offset;
}

// The innermost functions that have a symbol, others between them left out; without any, the
// innermost place.
std::string describe(const Site& site) {
  std::string symbols;
  std::string place;
  std::string before;
  int shown = 0;
  for (const void* frame : site.frames) {
    if (frame == nullptr || shown == kShownFrames) {
      break;
    }
    // A return address may be the first byte after its function: look up the call before it.
    const void* call = static_cast<const char*>(frame) - 1;
    Dl_info module{};
    if (dladdr(call, &module) == 0 || is_plumbing(file_name(module))) {
      continue;
    }
    if (module.dli_sname != nullptr) {
      const std::string name = symbol_of(module);
      if (name != before) {  // overloads that call each other have one name
        symbols += (shown++ > 0 ? " < " : "") + name;
      }
      before = name;
    } else if (place.empty()) {
      place = place_of(call, module);
    }
  }
  std::string text = !symbols.empty() ? symbols : !place.empty() ? place : "?";
  // A file's name may have what ends a line.
  std::ranges::replace_if(
      text, [](char byte) { return static_cast<unsigned char>(byte) < ' '; }, '?');
  return text;
}

}  // namespace

bool write_sites(const RecursionGuard&, const char* trace) noexcept {
  if (is_no_file(trace)) {
    return true;  // a device or a pipe has no neighbour
  }
  try {
    std::string text = "site,symbol\n";
    std::uint32_t count = 0;
    const Site* const all = sites(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (all[i].signature != 0) {
        char hash[32];
        std::snprintf(hash, sizeof hash, "%016" PRIx64 ",", all[i].signature);
        text += hash + describe(all[i]) + "\n";
      }
    }
    const std::string path = std::string(trace) + ".sites";
    return replace_file(path.c_str(),
                        [&](int file) { return write_all(file, text.data(), text.size()); });
  } catch (...) {
    return false;  // no memory: the trace is there all the same
  }
}

}  // namespace memo

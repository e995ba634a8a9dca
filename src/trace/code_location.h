// A code address as something that means the same in the next process: module and offset; and how
// to get from its frame to the caller's. Hot.
#pragma once

#include <cstdint>

#include "src/trace/frame_rule.h"

namespace memo {

struct CodeLocation {
  // Hash of the module's build id (of its file name where it has none) and the address' offset in
  // it, equal in every process that loads the same file, wherever it is loaded. 0 for generated
  // code, which has no place that another process could know.
  std::uint64_t place = 0;
  FrameRule rule;
};

// Finds out what the C library offers for looking modules up. Once, before the first look-up, and
// not from inside malloc.
void prepare_code_locations();

// Looks an address up once, then remembers it; any thread. From glibc 2.35 on no lock is taken;
// before, the one of the dynamic linker's list, so no lock of ours may be held; never the lock that
// dlopen holds while constructors run, which may wait for threads that allocate. Where a module was
// unloaded and another has come to lie in its place, the first may be remembered.
CodeLocation code_location(std::uint64_t return_address);

// The two ways of looking up, without the memory. The first answers false where glibc has no such
// function, or the module's file is unusual; generated code is found, with no place. The second
// answers false for that.
bool look_up_in_table(std::uint64_t return_address, CodeLocation& found);
bool look_up_in_list(std::uint64_t return_address, CodeLocation& found);

}  // namespace memo

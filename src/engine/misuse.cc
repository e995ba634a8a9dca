#include "src/engine/misuse.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <cstdlib>

#include "src/base/message.h"

namespace memo {
namespace {

constexpr const char* kWhere = "valgrind, without this library, tells where";

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

void begin(Line& line, const char* function, const char* what, const void* pointer) {
  line << function << "(): " << what << " ";
  line.hex(address_of(pointer)) << " by thread " << static_cast<std::uint64_t>(syscall(SYS_gettid));
}

void tell_of_block(Line& line, const Place& place) {
  line << "a block of " << place.bytes << " bytes at ";
  line.hex(address_of(place.start))
      << (place.in_slab ? " in the slab of lane " : " in the pool, of lane ")
      << static_cast<std::uint64_t>(place.lane)
      << (place.in_use ? ", in use" : ", which is free already");
}

void tell_of_place(Line& line, const Place& place, const void* pointer) {
  const std::uint64_t inside = address_of(pointer) - address_of(place.start);
  if (place.bytes == 0) {
    line << "no block of ours lies there";
  } else if (inside == 0) {
    line << "it is ";
    tell_of_block(line, place);
  } else {
    line << "it lies " << inside << " bytes into ";
    tell_of_block(line, place);
  }
}

[[noreturn]] void report_said(const Engine& engine, const char* function, const char* what,
                              const void* pointer, std::uint64_t said) {
  {
    Line line(Line::Kind::kLastWords);
    begin(line, function, what, pointer);
    line << ": " << said << " bytes, but ";
    tell_of_place(line, engine.find(pointer), pointer);
  }
  std::abort();
}

}  // namespace

Place Engine::find(const void* pointer) const {
  const Space& space = lanes.region.at(lanes.region.number_of(pointer));
  const Granules granule = space.granule_of(pointer);
  if (!space.plausible(space.address(granule))) {
    return {};
  }
  PageMap::Run run = space.pages.block_at(granule);
  const bool in_use = run.found();
  if (!in_use) {
    run = {granule, space.pages.freed_length(granule)};
  }
  const char* start = space.address(run.first);
  const bool pooled = lanes.is_pool(space);
  return {start, bytes_of(run.count), in_use, !pooled,
          pooled ? lanes.shared().pool.owner(start) : SlabWord::lane(lanes.slab_of(start).word())};
}

bool Engine::may_have_size(const void* pointer, std::uint64_t bytes) const {
  const std::uint64_t now = size(pointer);
  if (left_larger_.load(std::memory_order_relaxed)) {
    return bytes <= now;
  }
  const Space* space = lanes.space_of(pointer);
  if (space != nullptr && lanes.is_pool(*space)) {
    return bytes <= now && now - bytes < kGranule;
  }
  return bytes <= now && bytes >= now / 2;
}

void report_pointer(const Engine& engine, const char* function, const void* pointer) {
  const Place place = engine.find(pointer);
  {
    const bool twice = place.bytes != 0 && !place.in_use && place.start == pointer;
    Line line(Line::Kind::kLastWords);
    begin(line, function, twice ? "freed pointer" : "invalid pointer", pointer);
    line << ": ";
    tell_of_place(line, place, pointer);
    line << "; " << kWhere;
  }
  std::abort();
}

void report_size(const Engine& engine, const char* function, const void* pointer,
                 std::uint64_t said) {
  report_said(engine, function, "wrong size for pointer", pointer, said);
}

void report_alignment(const Engine& engine, const char* function, const void* pointer,
                      std::uint64_t said) {
  report_said(engine, function, "wrong alignment for pointer", pointer, said);
}

}  // namespace memo

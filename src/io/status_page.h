// The page of statistics: how a running process shows its figures to others, a file of the user's
// that is mapped into it. Its layout and its place, for the library that writes and the commands
// that read. Cold; file descriptors only.
//
//   folder   $XDG_RUNTIME_DIR/memomalloc, else /tmp/memomalloc-UID: the user's own, for nobody else
//   file     PID-START-SPACE.page, 0600: the same number is given to many processes. That of a
//            process' GPUs, whose memory another library serves, ends in .gpu
//   content  StatusPage, written whole, then a word that a reader writes to ask for memory
//
// A page is written by one thread while others read it: a reader takes a copy, and believes it
// where check_page() does.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "src/base/counters.h"

namespace memo {

constexpr std::uint32_t kLaneRows = 64;  // lanes beyond are counted, not shown
constexpr std::uint32_t kPlanRows = 32;
constexpr std::uint32_t kDeviceRows = 16;

// Texts end with a zero; the table says what the numbers are. Times in ns of the monotonic clock,
// which all processes share.
struct StatusLane {
  char phase[16] = {};
#define LANE(name, help) std::uint64_t name = 0;
#include "src/io/status_page_numbers.def"
};

struct StatusPlan {
#define PLAN(name, help) std::uint64_t name = 0;
#include "src/io/status_page_numbers.def"
};

struct StatusDevice {
  char phase[16] = {};
  std::uint64_t number = 0;  // as CUDA counts
#define DEVICE(name, type, help) std::uint64_t name = 0;
#include "src/io/status_page_numbers.def"
};

struct StatusShares {
  std::uint64_t nanoseconds = 0;
#define SHARES(name, help) std::uint64_t name = 0;
#include "src/io/status_page_numbers.def"
};

// A range of addresses, [start, start + bytes).
struct StatusRange {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
};

struct StatusBody {
  std::uint64_t pid = 0;  // as the process itself sees it
  std::uint64_t parent_pid = 0;
  std::uint64_t start = 0;  // of the process, in ticks: field 22 of /proc/PID/stat
  std::uint64_t space = 0;  // of process numbers: the inode of /proc/PID/ns/pid
  char version[16] = {};
  char process[64] = {};
  char phase[16] = {};
  std::uint64_t opened_at = 0;
  std::uint64_t written_at = 0;
  std::uint64_t answered = 0;  // the last word that was read and done
#define PROCESS(name, help) std::uint64_t name = 0;
#include "src/io/status_page_numbers.def"
  double plan_seconds = 0;
  StatusRange pool;
  StatusRange slabs;
  StatusShares now;
  std::uint64_t counters[sizeof(Counters) / sizeof(Counter)] = {};  // in the order of counters.def
  std::uint64_t lane_rows = 0;
  std::uint64_t plan_rows = 0;
  std::uint64_t device_rows = 0;
  StatusLane lanes[kLaneRows];
  StatusPlan plans[kPlanRows];
  StatusDevice devices[kDeviceRows];
};

struct StatusPage {
  char magic[8] = {};
  std::uint64_t layout = 0;
  // Of the body: a copy that was taken in the middle of a change has another.
  std::uint64_t sum = 0;
  StatusBody body;
};

struct StatusFile {
  StatusPage page;
  // A process that may write the file asks for memory back by a new word.
  alignas(64) std::uint64_t release = 0;
};

// The names and the order of the fields and the counters as one number: a reader with another
// number would read another field's value.
constexpr std::uint64_t kStatusLayout = [] {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  const auto add = [&hash](std::string_view text) {
    for (const char letter : text) {
      hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
    }
  };
  add("3");  // the version of what stands above outside the tables: to be raised with each change
#define LANE(name, help) add(#name ",");
#define PLAN(name, help) add(#name ",");
#define SHARES(name, help) add(#name ",");
#define PROCESS(name, help) add(#name ",");
#define DEVICE(name, type, help) add(#name ",");
#include "src/io/status_page_numbers.def"
#define COUNTER(name, unit, help) add(#name ",");
#include "src/base/counters.def"
#undef COUNTER
  return hash ^ sizeof(StatusFile);
}();

// Writes the text into a field of a page: cut to its room, and plain letters.
template <std::size_t kRoom>
void put_text(char (&field)[kRoom], std::string_view text) {
  std::memset(field, 0, kRoom);
  text.copy(field, kRoom - 1);
  for (char& letter : field) {
    letter = letter == '\0' || (letter >= ' ' && letter <= '~') ? letter : '?';
  }
}
// What stays as long as the process does.
void describe_process(StatusBody& body);

// Makes the page complete: its magic, layout and sum.
void seal_page(StatusPage& page);

// "" if the copy is a whole page of this layout whose numbers can be believed: counts within their
// bounds, times and seconds that can be, texts of plain letters with an end. Else what is wrong.
std::string_view check_page(const StatusPage& page);

// The folder below `runtime` ($XDG_RUNTIME_DIR, an absolute path; or empty), else of user `owner`
// below /tmp, as a path; false if it does not fit.
bool status_folder(std::string_view runtime, uid_t owner, char* path, std::size_t room);
// Opens the folder; -1 with errno if it is not there, is not `owner`'s, or others may look into it
// (EACCES). `make`: it is made where it is missing, inside a folder of the user's or one with the
// sticky bit.
int open_status_folder(const char* path, uid_t owner, bool make);

// When the process began, in ticks since the system did; 0 if there is no such process any more.
std::uint64_t start_of(pid_t pid);
// The name space of this process' numbers, by /proc/self: a child of vfork in another one has its
// own. 0 where the system does not tell.
std::uint64_t number_space();

// The name of a process' page, and back: false for other names.
struct StatusName {
  std::uint64_t pid = 0;
  std::uint64_t start = 0;
  std::uint64_t space = 0;
  bool devices = false;  // of the process' GPUs
};
constexpr std::size_t kStatusNameRoom = 80;
void format_name(const StatusName& name, char (&text)[kStatusNameRoom]);
bool parse_name(std::string_view text, StatusName& name);

// Makes the page, in place of an older one of the same name (of a program that has become another
// by exec), and maps it; nullptr with errno, and nothing left behind, if that fails. It has blocks
// of its own from the start: a file system that is full later refuses nobody.
StatusFile* make_page(int folder, const char* name, const StatusFile& content);
// The same for the process that the page tells of, below `runtime` or /tmp, in a folder that is
// made where it is missing; `path` gets the file's.
StatusFile* make_page(const char* runtime, const StatusFile& content, char* path, std::size_t room);

// Opens a page to read it, or also to write its word; -1 with errno. Only a regular file of
// `owner`, of the size of a page, that nobody else may write.
int open_page(int folder, const char* name, uid_t owner, bool write);

}  // namespace memo

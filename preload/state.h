// What the features of this folder keep: a struct for each, a member of the one global object. One
// with a forked() is a row of features.def: that makes it a forked child's own, where its parent's
// threads do not exist, nor do its files. Hot.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <atomic>
#include <cstdint>

#include "src/base/backoff.h"
#include "src/base/guard.h"
#include "src/base/lock.h"
#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/engine/catalogue.h"
#include "src/engine/plan_store.h"

#include "src/io/shared_file.h"
#include "src/io/status_page.h"

namespace memo::state {

// Work that a thread of its own does, one at a time (background_task.h).
struct Task {
  void (*work)(const RecursionGuard&) = nullptr;
  std::atomic<bool> running{false};
};

struct OwnThreads {
  // The kernel's numbers of the library's own threads and of what they do apart, each until it is
  // seen to be nobody's: what has ended here is still about to end there. 0: free. There are fewer.
  std::atomic<pid_t> numbers[32] = {};
  std::atomic<std::uint32_t> count{0};  // threads that are started and have not yet ended
  std::atomic<bool> ending{false};      // no other thread is left, or is about to end
  // The program's first thread has ended, and the process goes on: its end is looked for often.
  std::atomic<bool> first_has_left{false};
  std::atomic<std::uint32_t> news{0};  // a sleeping thread looks where this changes
  sigset_t programs_mask = {};         // of the thread that has started the first of them
  // Starts are rare, and each is over before the next: the thread takes it, and says so.
  void (*next_body)(void*) = nullptr;
  void* next_argument = nullptr;
  std::atomic<bool> starting{false};
  // Tasks of threads that have taken their start, and that have not said yet whose they are.
  std::atomic<std::uint32_t> tasks_to_come{0};

  void forked() {
    for (std::atomic<pid_t>& number : numbers) {
      number = 0;
    }
    count = tasks_to_come = 0;
    starting = ending = first_has_left = false;
  }
};

struct Background {
  std::atomic<bool> running{false};
  Task searching;
  Backoff starts;
  const char* single_threaded = nullptr;  // the C library's own note; none before glibc 2.32

  void forked() {
    running = searching.running = false;
    starts.restart();
  }
};

struct StatusThreads {
  std::atomic<std::uint32_t> numbers[tuning::kMaxLanes] = {};

  void forked();
};

struct Reports {
  bool reported = false;
  std::atomic<bool> ended{false};  // the process writes its last reports
  bool complained = false;
  Nanos started;      // since 1970, as own_written
  Nanos own_written;  // when this process wrote its statistics last, as the file tells
  std::atomic<Nanos> written_at{Nanos{0}};
  std::atomic<std::uint64_t> calls_written{0};  // large calls that the file tells of
  Task writing;

  void forked() {
    reported = complained = ended = writing.running = false;
    written_at = Nanos{0};
    calls_written = 0;
  }
};

struct Status {
  char runtime_folder[512] = "";
  char path[512] = "";  // of the page that there is
  std::atomic<StatusFile*> page{nullptr};
  Backoff opens;
  std::atomic<bool> busy{false};  // a thread is at what stands below
  bool complained = false;
  StatusFile draft;
  Nanos opened_at;
  std::uint64_t last_word = 0;
  // What was counted some seconds ago, the older one first; when, as nanoseconds.
  StatusShares samples[2];

  // The parent's page is not mapped any more.
  void forked() {
    page = nullptr;
    opens.restart();
    busy = complained = false;
    last_word = 0;
    samples[0] = {};
  }
};

struct OwnMemory {
  struct Chunk;
  std::atomic<Chunk*> chunks{nullptr};
  Lock lock;

  void forked() { lock.forget_owner(); }
};

struct ObservedBlocks {
  struct Row;
  Row* rows = nullptr;
  std::uint64_t used = 0;
  Lock table;
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> spared{0};  // page faults
  std::atomic<std::uint64_t> held{0};    // bytes
  std::atomic<std::uint64_t> peak{0};

  // What the parent has seen is the parent's.
  void forked() {
    table.forget_owner();
    spared = 0;
    peak = held.load();
  }
};

struct PlanExchange {
  // A plan that was fetched from the cache: the plan in this process, its name there and its maker.
  struct Fetched {
    const StoredPlan* plan = nullptr;
    std::uint64_t generation = 0;
    PlanName name;
    Maker maker = Maker::kOther;
  };

  Lock at_work;  // fetching and listing: one thread at a time
  FileMark listed;
  Nanos listed_at;  // since 1970
  std::atomic<Nanos> looked_at{Nanos{0}};
  Fetched fetched[tuning::kMaxPlans];
  Backoff fetches;
  // By the slot: the plans that the cache has, or could not be given.
  std::atomic<std::uint64_t> known[tuning::kMaxPlans];
  std::atomic<std::uint64_t> streams[tuning::kMaxPlans];  // of their names
  Backoff saves;
  bool complained_of_cache = false;
  bool complained_of_file = false;

  void forked();
};

struct Reporter {
  // The reporter's number, and the file behind its name space of such numbers; 0: not known. A
  // forked child may be in another one, and does not ask: its first act may be to give system calls
  // up.
  pid_t number = 0;
  std::uint64_t space_of_number = 0;
};

struct ThreadEnd {
  static constexpr std::uint64_t kNone = UINT64_MAX;
  void (*end)(void*) = nullptr;
  std::atomic<std::uint64_t> key{kNone};

  void forked();
};

// An allocator that stands before this library and takes what is freed; else none (preceding.h).
struct Preceding {
  decltype(&::realloc) realloc = nullptr;
  decltype(&::free) free = nullptr;
  // While it is looked for.
  decltype(&::free) next_free = nullptr;
  decltype(&::realloc) next_realloc = nullptr;
  std::atomic<void*> probe{nullptr};
  std::atomic<bool> came{false};  // the probe's block, to be freed or resized
};

// The C library's own functions of system_names.def, by its rows.
struct SystemNames {
  enum class Name {
#define FORWARDED(name, result, parameters, arguments) k_##name,
#include "preload/system_names.def"
    kClock,
    kCount,
  };
  std::atomic<void*> functions[static_cast<int>(Name::kCount)] = {};
};

// What is said once in a process.
struct Once {
  std::atomic<bool> deep_binding{false};
  std::atomic<bool> tensors_left_alone{false};
};

}  // namespace memo::state

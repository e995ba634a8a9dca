// `memomalloc release`: asks a running process, by the word in its page of statistics, to give back
// what it does not use at the moment. Cold.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "src/base/os.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/process_rows.h"
#include "src/cli/status/status_pages.h"

namespace memo::cli {
namespace {

constexpr Nanos kAnswerTime = 10 * os::kSecond;  // a process that serves answers within two seconds

// A later word, which another has written meanwhile, stays: its answer is to both. False with errno
// if the page cannot be written.
bool ask(const ProcessPage& page, std::uint64_t word) {
  const int folder = open_status_folder(page.folder.c_str(), page.owner, false);
  const int file = folder < 0 ? -1 : open_page(folder, page.name.c_str(), page.owner, true);
  constexpr ssize_t kSize = sizeof word;
  constexpr off_t kPlace = offsetof(StatusFile, release);
  std::uint64_t written = 0;
  bool asked = file >= 0 && pread(file, &written, kSize, kPlace) == kSize;
  word = std::max(word, written);
  asked = asked && pwrite(file, &word, kSize, kPlace) == kSize;
  const int reason = errno;
  for (const int each : {file, folder}) {
    if (each >= 0) {
      close(each);
    }
  }
  errno = reason;
  return asked;
}

// The process' pages, unless it has ended.
std::vector<ProcessPage> find(pid_t pid, std::vector<std::string>& problems) {
  std::vector<ProcessPage> pages = read_pages(pid, problems);
  std::erase_if(pages, [](const ProcessPage& page) { return page.ended; });
  return pages;
}

// Resident memory of the process, which everybody may know, in words.
std::string resident_memory(const ProcessPage& page) {
  std::ifstream statm("/proc/" + std::to_string(page.body.pid) + "/statm");
  std::int64_t whole = 0;
  std::int64_t resident = 0;
  return is_numbered_here(page) && statm >> whole >> resident
             ? mebibytes(resident * static_cast<std::int64_t>(os::page_size()))
             : "not known";
}

}  // namespace

int release(int argc, char** argv) {
  pid_t pid = 0;
  CLI::App app(
      "Makes a running process release the memory that it holds and does not use. It takes "
      "again\n"
      "what it needs. It must have been started with `memomalloc run --status --`, and be "
      "serving:\n"
      "`memomalloc status` lists such processes. Exit code 1 if it does not answer.");
  app.add_option("PID", pid, "the process")->required()->check(process_number());
  if (auto code = parse(app, argc, argv)) {
    return *code;
  }
  std::vector<std::string> problems;
  const std::vector<ProcessPage> pages = find(pid, problems);
  if (pages.empty()) {
    for (const std::string& problem : problems) {
      std::fprintf(stderr, "%s\n", problem.c_str());
    }
    std::fprintf(
        stderr,
        "process %d cannot be reached: it has ended, made no large allocation yet, or was not "
        "started with `memomalloc run --status`; `memomalloc status --all` lists those that "
        "can be\n",
        pid);
    return kNo;
  }
  const std::string before = resident_memory(pages.front());
  const std::uint64_t word = os::nanoseconds().count();  // greater than all before
  for (const ProcessPage& page : pages) {
    if (!ask(page, word)) {
      std::fprintf(stderr, "process %d cannot be asked: %s\n", pid, std::strerror(errno));
      return kNo;
    }
  }
  for (const Nanos end = os::nanoseconds() + kAnswerTime; os::nanoseconds() < end;) {
    const std::vector<ProcessPage> now = find(pid, problems);
    if (now.empty()) {
      break;
    }
    if (std::all_of(now.begin(), now.end(),
                    [&](const ProcessPage& page) { return page.body.answered >= word; })) {
      std::printf("%s, process %d: resident %s before, %s now\n", now.front().body.process, pid,
                  before.c_str(), resident_memory(now.front()).c_str());
      for (std::uint64_t i = 0; i < now.back().body.device_rows; ++i) {
        const StatusDevice& device = now.back().body.devices[i];
        std::printf("GPU %llu: reserved %s now\n", static_cast<unsigned long long>(device.number),
                    mebibytes(static_cast<std::int64_t>(device.reserved_bytes)).c_str());
      }
      return kDone;
    }
    os::rest(50 * os::kMillisecond);
  }
  std::fprintf(stderr, "process %d has not answered: it serves nothing, or has ended\n", pid);
  return kNo;
}

}  // namespace memo::cli

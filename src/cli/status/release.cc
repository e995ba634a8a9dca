// `memomalloc release`: asks a running process, by the word in its page of statistics, to give back
// what it does not use at the moment. Cold.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
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

// Writes a word that is new; 0 with errno if the page cannot be written.
std::uint64_t ask(const ProcessPage& page) {
  const std::uint64_t word = os::nanoseconds().count();
  const int folder = open_status_folder(page.folder.c_str(), page.owner, false);
  const int file = folder < 0 ? -1 : open_page(folder, page.name.c_str(), page.owner, true);
  const bool asked = file >= 0 && pwrite(file, &word, sizeof word, offsetof(StatusFile, release)) ==
                                      static_cast<ssize_t>(sizeof word);
  const int reason = errno;
  for (const int each : {file, folder}) {
    if (each >= 0) {
      close(each);
    }
  }
  errno = reason;
  return asked ? word : 0;
}

// The process' page, unless it has none or has ended.
std::optional<ProcessPage> find(pid_t pid, std::vector<std::string>& problems) {
  for (ProcessPage& page : read_pages(pid, problems)) {
    if (!page.ended) {
      return std::move(page);
    }
  }
  return std::nullopt;
}

// Resident memory of the process, which everybody may know; 0 if the system does not tell.
std::int64_t resident_bytes(pid_t pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  std::int64_t whole = 0;
  std::int64_t resident = 0;
  statm >> whole >> resident;
  return resident * static_cast<std::int64_t>(os::page_size());
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
  const std::optional<ProcessPage> page = find(pid, problems);
  if (!page) {
    for (const std::string& problem : problems) {
      std::fprintf(stderr, "%s\n", problem.c_str());
    }
    std::fprintf(stderr,
                 "process %d cannot be reached: it was not started with `memomalloc run --status`; "
                 "`memomalloc status --all` lists those that were\n",
                 pid);
    return kNo;
  }
  const std::int64_t before = resident_bytes(pid);
  const std::uint64_t word = ask(*page);
  if (word == 0) {
    std::fprintf(stderr, "process %d cannot be asked: %s\n", pid, std::strerror(errno));
    return kNo;
  }
  for (const Nanos end = os::nanoseconds() + kAnswerTime; os::nanoseconds() < end;) {
    const std::optional<ProcessPage> now = find(pid, problems);
    if (now && now->body.answered == word) {
      std::printf("%s, process %d: resident %s before, %s now\n", now->body.process, pid,
                  mebibytes(before).c_str(), mebibytes(resident_bytes(pid)).c_str());
      return kDone;
    }
    if (!now) {
      break;
    }
    os::rest(50 * os::kMillisecond);
  }
  std::fprintf(stderr, "process %d has not answered: it serves nothing, or has ended\n", pid);
  return kNo;
}

}  // namespace memo::cli

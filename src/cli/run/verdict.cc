// The doctor's first line. Cold.
#include <csignal>
#include <filesystem>
#include <string>

#include "src/cli/run/diagnosis.h"
#include "src/cli/run/loader.h"

namespace memo::cli {
namespace {

constexpr std::int64_t kFewCalls = 300;      // a program of so few has hardly begun
constexpr std::int64_t kFaultsToSay = 1000;  // avoided: 4 MiB of pages
constexpr std::int64_t kPartToSay = 5;       // of all large bytes: one part in this

bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGILL ||
         signal == SIGFPE;
}

std::string memory_of(const Run& run) {
  return run.watched.peak == 0
             ? ""
             : "; at the end it holds " + mebibytes(run.watched.held) + ", seen: at most " +
                   mebibytes(run.watched.peak) + ", pages of files apart";
}

// All processes that do the work, together.
ProcessRow work_of(const std::vector<ProcessRow>& rows) {
  std::vector<ProcessRow> working;
  for (const ProcessRow& row : rows) {
    if (row.works) {
      working.push_back(row);
    }
  }
  return sum_of(working);
}

std::int64_t greatest_served(const Run& run) {
  std::int64_t greatest = 0;
  for (const ProcessRow& row : run.rows) {
    const auto found = run.watched.processes.find(static_cast<pid_t>(row.pid));
    greatest =
        std::max(greatest, found != run.watched.processes.end() ? found->second.peak : row.peak);
  }
  return greatest;
}

// Why a program whose blocks are hardly served is so: what keeps most of its memory.
const Hiding* reason(const std::vector<Hiding>& hidden) {
  for (const Hiding& one : hidden) {
    if (one.hider->advice != std::string_view(kSecondAllocator)) {
      return &one;
    }
  }
  return nullptr;
}

Verdict crashed(const Run& run) {
  std::string why;
  for (const std::string& path : run.watched.mapped) {
    if (std::filesystem::path(path).filename().string().starts_with("libtbb")) {
      why =
          "; oneTBB opens plug-ins with RTLD_DEEPBIND, whose frees pass by an allocator that is "
          "preloaded: set TBB_ENABLE_SANITIZERS=1";
    }
  }
  return {"crashed", "The program ended with " + describe_exit(run.usage.exit_code) + why +
                         ". Does it end so without the library, too?"};
}

Verdict of_what_was_served(const Run& run) {
  const char* names = std::getenv("MEMOMALLOC_EXE");
  if (!run.told && names != nullptr && *names != '\0') {
    return {"off", "It is not on: MEMOMALLOC_EXE=" + std::string(names) +
                       " leaves out what this command runs; name its program there, or unset it."};
  }
  const ProcessRow work = work_of(run.rows);
  const std::int64_t served = work.planned + work.at_hand;
  const std::string share = percent(served, work.large) + " of " + mebibytes(work.large) +
                            " in large blocks (" + percent(work.planned, work.large) +
                            " by plan, " + percent(work.at_hand, work.large) + " from the pool)" +
                            memory_of(run);
  const Hiding* one = reason(run.hidden);
  if (served * kPartToSay >= work.large && work.faults_avoided >= kFaultsToSay) {
    return {"helps", "It is on, and serves this program: " + share + "." +
                         (one != nullptr ? " Not seen, where it is used: " + one->what + "." : "")};
  }
  if (one != nullptr) {
    const bool is_pool = one->hider->kind == Hider::kPool;
    return {is_pool ? "little" : "hidden",
            std::string("It is on, and sees little: ") + one->what +
                (is_pool ? "" : std::string("; ") + one->hider->advice) + memory_of(run) + "."};
  }
  if (!run.told) {
    return {"silent", "It was loaded, and left no statistics: " + std::string(kSilent) +
                          memory_of(run) + "."};
  }
  if (work.calls < kFewCalls) {
    return {"short", "It is on; the program ends too early to tell, after " +
                         std::to_string(work.calls) +
                         " large allocations: a loop is learned after 4 iterations or more of one "
                         "shape, a program that runs once has little to gain" +
                         memory_of(run) + "."};
  }
  return {"little", "It is on, and serves little: " + share + "."};
}

// What else is wrong, for the first line.
std::string besides(const Run& run) {
  std::string text;
  const char* preload = std::getenv("LD_PRELOAD");
  for (const std::string& missing : missing_in(preload != nullptr ? preload : "")) {
    text += " LD_PRELOAD names " + missing + ", which is not there.";
  }
  for (const auto& [pid, process] : run.watched.processes) {
    if (process.libraries.size() > 1) {
      return text + " The library is loaded twice: leave one out.";
    }
  }
  return text;
}

}  // namespace

Verdict judge(const Run& run) {
  Verdict verdict;
  const std::vector<Unserved> others = unserved(run);
  if (is_crash(run.usage.signal)) {
    verdict = crashed(run);
  } else if (!others.empty() && others[0].process->peak > greatest_served(run)) {
    verdict = {"elsewhere", "It is not on in process " + std::to_string(others[0].pid) + " (" +
                                others[0].process->name + "), which holds most of the memory, " +
                                mebibytes(others[0].process->peak) + ": " + others[0].why + "."};
  } else {
    verdict = of_what_was_served(run);
  }
  verdict.line += besides(run);
  return verdict;
}

}  // namespace memo::cli

#include "src/io/team.h"

#include <dirent.h>
#include <algorithm>
#include <cstring>
#include <string_view>

#include "src/base/proc_file.h"

namespace memo {
namespace {

// What /proc/PID/task/THREAD/stat tells of a thread.
struct Told {
  bool whole = false;
  std::uint64_t ticks = 0;
  int processor = -1;
  bool gives_way = false;  // to whoever wants the processor: the library's own search does
};

// The fields behind the name, which stands in parentheses and may hold any letter. proc(5): the
// first one behind is the third.
Told read_stat(const char* path) {
  constexpr int kUser = 14;
  constexpr int kSystem = 15;
  constexpr int kNice = 19;
  constexpr int kProcessor = 39;
  os::LinesOf<512> file(path);
  std::string_view line;
  Told told;
  if (!file.next(line) || line.rfind(") ") == std::string_view::npos) {
    return told;
  }
  line.remove_prefix(line.rfind(") ") + 2);
  for (int field = 3; !line.empty() && field <= kProcessor; ++field) {
    const std::string_view word = line.substr(0, line.find(' '));
    const std::uint64_t number = os::number_in(word);
    if (field == kUser || field == kSystem) {
      told.ticks += number;
    } else if (field == kNice) {
      told.gives_way = word == "19";
    } else if (field == kProcessor) {
      told.processor = static_cast<int>(number);
      told.whole = true;
    }
    line.remove_prefix(std::min(line.size(), word.size() + 1));
  }
  return told;
}

}  // namespace

const Team::Member* Team::find(std::uint32_t thread) const {
  const Member* const end = before_ + count_before_;
  const Member* const found = std::find_if(
      before_, end, [thread](const Member& member) { return member.thread == thread; });
  return found == end ? nullptr : found;
}

void Team::look(const Topology& topology, const char* tasks) {
  std::copy(members_, members_ + count_, before_);
  count_before_ = count_;
  count_ = 0;
  const os::NoCancellation whole;
  DIR* folder = opendir(tasks);
  while (folder != nullptr && count_ < tuning::kMaxTeam) {
    const dirent* entry = readdir(folder);
    if (entry == nullptr) {
      break;
    }
    if (entry->d_name[0] == '.') {
      continue;
    }
    char path[320] = {};
    const std::string_view parts[] = {tasks, "/", entry->d_name, "/stat"};
    std::size_t size = 0;
    for (const std::string_view part : parts) {
      size += part.copy(path + size, sizeof path - 1 - size);
    }
    const Told told = read_stat(path);
    const std::uint32_t node = topology.node_of(told.processor);
    if (told.whole && !told.gives_way && node != Topology::kNoNode) {
      Member& member = members_[count_++];
      member = {static_cast<std::uint32_t>(os::number_in(entry->d_name)), node, told.ticks, false};
      const Member* before = find(member.thread);
      // One tick may be a wake-up's.
      member.works = before != nullptr && member.ticks > before->ticks + 1;
    }
  }
  if (folder != nullptr) {
    closedir(folder);
  }
}

}  // namespace memo

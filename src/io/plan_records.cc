// See plan_records.h. Cold.
#include "src/io/plan_records.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "src/base/check.h"

namespace memo {
namespace {

constexpr std::string_view kPlanMagic = "MEMOPLAN";
constexpr std::uint32_t kPlanVersion = 4;  // of the format; no other is read

template <typename Record>
void append(std::vector<char>& bytes, const Record& record) {
  const auto* raw = reinterpret_cast<const char*>(&record);
  bytes.insert(bytes.end(), raw, raw + sizeof record);
}

// Reads records one after the other; false at the end of the bytes.
class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : bytes_(bytes) {}
  template <typename Record>
  bool read(Record& record) {
    if (bytes_.size() < sizeof record) {
      return false;
    }
    std::memcpy(&record, bytes_.data(), sizeof record);
    bytes_ = bytes_.subspan(sizeof record);
    return true;
  }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const char> bytes_;
};

// Little-endian and without padding, as every supported machine has it in memory.
struct FileHeader {
  char magic[kPlanMagic.size()];
  std::uint32_t version;
  std::uint32_t plans;     // 1
  char library[16];        // the library that wrote it, for the message
  std::uint64_t checksum;  // XXH3 of everything behind the header
};
static_assert(sizeof(FileHeader) == 40);
struct PlanHeader {
  std::uint64_t height;
  std::uint64_t lower_bound;
  std::uint32_t count;
  std::uint32_t iteration;
  std::uint64_t least;   // of a symbolic plan, whose rules follow the steps; else 0
  std::uint64_t lowest;  // 1: its reader need not search for a lower one; else 0
};
struct StepRecord {
  std::uint64_t size;
  std::uint64_t offset;
  std::uint64_t site;
  std::uint32_t alignment_log2;
  std::uint32_t lifetime;  // allocations until it is freed; 0: not known
};
struct RuleRecord {
  SizeRule rule;
  std::uint32_t lifetime;
  std::uint32_t elastic;
};
static_assert(sizeof(PlanHeader) == 40 && sizeof(StepRecord) == 32 && sizeof(RuleRecord) == 48);

// A step that could be served; whether it is right shows in serving.
bool sound(const StepRecord& step, std::uint64_t height) {
  // Planners round up to it.
  constexpr auto kMost = static_cast<std::uint32_t>(std::countr_zero(kMaxBlock));
  if (step.size == 0 || step.alignment_log2 > (step.offset == kUnplanned ? 63 : kMost)) {
    return false;
  }
  return step.offset == kUnplanned ||
         (step.offset % kGranule == 0 && step.offset < height && step.size <= height - step.offset);
}

bool sound(const RuleRecord& record) {
  const SizeRule& rule = record.rule;
  return std::isfinite(rule.constant) && std::isfinite(rule.slope) && std::isfinite(rule.curve) &&
         std::isfinite(rule.x0) && std::isfinite(rule.x1) && record.elastic <= 1;
}

std::string_view check(const FileHeader& header, std::span<const char> rest) {
  if (std::string_view(header.magic, sizeof header.magic) != kPlanMagic) {
    return "it is no plan file";
  }
  if (header.version != kPlanVersion) {
    return "another version of the library wrote it";
  }
  if (header.checksum != XXH3_64bits(rest.data(), rest.size())) {
    return "it is damaged";
  }
  return {};
}

bool read_steps(Reader& reader, std::uint64_t height, std::vector<Step>& steps) {
  for (Step& step : steps) {
    StepRecord record{};
    if (!reader.read(record) || !sound(record, height)) {
      return false;
    }
    step = {record.size, record.offset, record.site,
            static_cast<std::uint8_t>(record.alignment_log2), record.lifetime};
  }
  return true;
}

bool read_rules(Reader& reader, std::vector<Step>& steps, std::vector<SymbolicStep>& rules) {
  for (Step& step : steps) {
    RuleRecord record{};
    if (!reader.read(record) || !sound(record)) {
      return false;
    }
    step.lifetime = record.lifetime;
    step.elastic = record.elastic != 0;
    rules.push_back({record.rule, step.site, record.lifetime, step.alignment_log2, step.elastic,
                     step.offset != kUnplanned});
  }
  return true;
}

std::size_t bytes_of(const Schedule& schedule) {
  return sizeof(PlanHeader) + schedule.count * sizeof(StepRecord) +
         (schedule.symbolic != nullptr ? schedule.count * sizeof(RuleRecord) : 0);
}

void append_plan(std::vector<char>& bytes, const SavedPlan& plan) {
  const Schedule& schedule = *plan.schedule;
  const SymbolicPlan* symbolic = schedule.symbolic;
  MEMO_DCHECK(symbolic == nullptr || symbolic->count == schedule.count);
  append(bytes, PlanHeader{schedule.height, schedule.lower_bound, schedule.count, plan.iteration,
                           symbolic != nullptr ? symbolic->least : 0,
                           plan.lowest || schedule.lowest ? 1U : 0U});
  for (std::uint32_t i = 0; i < schedule.count; ++i) {
    const Step& step = schedule.steps[i];
    append(bytes,
           StepRecord{step.size, step.offset, step.site, step.alignment_log2, step.lifetime});
  }
  for (std::uint32_t i = 0; symbolic != nullptr && i < symbolic->count; ++i) {
    const SymbolicStep& step = symbolic->steps[i];
    append(bytes, RuleRecord{step.rule, step.lifetime, step.elastic ? 1U : 0U});
  }
}

// False if there is none that makes sense.
bool read_plan(Reader& reader, std::uint64_t most_height, LoadedPlan& plan) {
  PlanHeader header{};
  if (!reader.read(header) || header.count == 0 || header.iteration == 0 ||
      header.iteration > header.count || header.height > most_height ||
      header.height % kGranule != 0 || header.lowest > 1 ||
      (header.least != 0 && header.lowest == 0)) {
    return false;
  }
  const std::size_t each = sizeof(StepRecord) + (header.least != 0 ? sizeof(RuleRecord) : 0);
  if (header.count > reader.left() / each) {
    return false;
  }
  std::vector<Step> steps(header.count);
  std::vector<SymbolicStep> rules;
  if (!read_steps(reader, header.height, steps) ||
      (header.least != 0 && !read_rules(reader, steps, rules))) {
    return false;
  }
  const SymbolicPlan symbolic{.steps = rules.data(), .count = header.count, .least = header.least};
  plan = {Plan::copy_of({.steps = steps.data(),
                         .count = header.count,
                         .height = header.height,
                         .lower_bound = header.lower_bound,
                         .lowest = header.lowest != 0,
                         .symbolic = header.least != 0 ? &symbolic : nullptr}),
          header.iteration};
  if (!plan.plan) {
    throw std::bad_alloc();
  }
  return true;
}

}  // namespace

std::vector<char> format_plan(const SavedPlan& plan, std::uint64_t most,
                              std::span<const char> trailer) {
  FileHeader header{};
  std::vector<char> bytes(sizeof header);
  if (bytes.size() + bytes_of(*plan.schedule) + trailer.size() > most) {
    return {};
  }
  append_plan(bytes, plan);
  bytes.insert(bytes.end(), trailer.begin(), trailer.end());
  std::copy(kPlanMagic.begin(), kPlanMagic.end(), header.magic);
  header.version = kPlanVersion;
  header.plans = 1;
  std::strncpy(header.library, MEMO_VERSION, sizeof header.library - 1);
  header.checksum = XXH3_64bits(bytes.data() + sizeof header, bytes.size() - sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

bool parse_plan(std::span<const char> bytes, std::uint64_t most_height, LoadedPlan& plan,
                std::string_view* problem) {
  FileHeader header{};
  Reader reader(bytes);
  if (!reader.read(header)) {
    const std::string_view begin(bytes.data(), std::min(bytes.size(), kPlanMagic.size()));
    *problem =
        kPlanMagic.starts_with(begin) ? "it cannot be read, or is cut short" : "it is no plan file";
    return false;
  }
  *problem = check(header, bytes.subspan(sizeof header));
  if (problem->empty() && (header.plans != 1 || !read_plan(reader, most_height, plan))) {
    *problem = "a plan in it makes no sense here (its slab may be over the limit)";
  }
  return problem->empty();
}

bool is_other_version(std::span<const char> bytes) {
  FileHeader header{};
  Reader reader(bytes);
  return reader.read(header) && std::string_view(header.magic, sizeof header.magic) == kPlanMagic &&
         header.version != kPlanVersion;
}

}  // namespace memo

// The memory behind a stream, and what is known of it, for a tracker alone: every place is granted, every
// block given, nothing known and nothing learned. A test overrides what it is about. For tests only.
#pragma once

#include <cstdint>

#include "src/engine/knowledge.h"
#include "src/engine/memory.h"

namespace memo::testing {

class FakeMemory : public Memory {
 public:
  virtual ~FakeMemory() = default;
  Claimed claim(const Call&, std::uint64_t) override { return {}; }
  bool in_use(std::uint64_t) override { return true; }
  Given give(const Call&) override { return {.start = &block_}; }
  Opened open(const Opening&) override { return Opened::kOpened; }
  void begin_serving(bool, bool) override {}
  void end_iteration(std::uint64_t, std::uint64_t, bool) override {}
  void trim(std::uint64_t) override {}
  void give_back(bool) override {}
  void allow_slack(bool) override {}

 protected:
  char block_ = 0;
};

class FakeKnowledge : public Knowledge {
 public:
  virtual ~FakeKnowledge() = default;
  bool can_learn() override { return false; }
  bool note(const Call&) override { return true; }
  void forget_calls() override {}
  void planned() override {}
  std::size_t mark() override { return 0; }
  Learned learn(const Wanted&) override { return {}; }
  std::uint32_t learn_sites(const Wanted&) override { return 0; }
  Known follow(const Call&, const StoredPlan*, std::uint64_t) override { return {}; }
  void follow_anew() override {}
  Known guess(const Call&, const Schedule&, StepIndex) override { return {}; }
  bool complete(StoredPlan&) override { return true; }
  void leave(StoredPlan& plan, std::uint32_t) override { --plan.users; }
  void tell_phase(Phase) override {}
  void tell_lost(std::uint64_t, Evidence) override {}
  void tell_miss(const Call&, Miss, StepIndex) override {}
};

}  // namespace memo::testing

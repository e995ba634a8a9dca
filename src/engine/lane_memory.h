// The memory behind a lane: the pool, and the slab that it holds. Hot. Its thread alone calls it,
// but for what says otherwise; any thread frees.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/backoff.h"
#include "src/engine/call_counts.h"
#include "src/engine/memory.h"
#include "src/engine/shared.h"
#include "src/serve/slabs.h"

namespace memo {

// Bytes of a lane's blocks in the pool for which its slab has memory, too. As much goes back to the
// system with the next of its blocks that are freed, whatever the pool's peak. Any thread.
class Debt {
 public:
  void set(std::uint64_t bytes) { bytes_.store(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // A block of so many bytes is freed: true, and that much less is owed, if it is one of those.
  bool pay(std::uint64_t bytes) {
    std::uint64_t owed = this->bytes();
    while (owed != 0 &&
           !bytes_.compare_exchange_weak(owed, sub_sat(owed, bytes), std::memory_order_relaxed)) {
    }
    return owed != 0;
  }

 private:
  std::atomic<std::uint64_t> bytes_{0};
};

class LaneMemory final : public Memory {
 public:
  void open(Shared* shared, std::uint32_t number, CallCounts* counts);
  [[nodiscard]] Shared& shared() const { return *shared_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }

  Claimed claim(const Call& call, std::uint64_t offset) override;
  bool in_use(std::uint64_t offset) override;
  Given give(const Call& call) override;
  Opened open(const Opening& opening) override;
  void begin_serving(bool trial, bool own) override;
  void end_iteration(std::uint64_t offset, std::uint64_t bytes, bool believed) override;
  void trim(std::uint64_t height) override;
  void give_back(bool height) override;
  void allow_slack(bool loop) override;

  // A call gets the place that it has claimed.
  void* serve(const Request& request, std::uint64_t offset, bool dirty);
  // A call gets the block of the pool.
  void* serve(const Request& request, const Given& given);
  // The lane is another thread's from now on.
  void forget() {
    refusals_.restart();
    yields_.restart();
    lent_ = Lent::kNothing;
    debt.set(0);
  }
  // A call of the lane's thread has raised the pool's peak by `bytes`.
  void note_growth(std::uint64_t bytes) {
    if (bytes != 0 && holds_slab()) [[unlikely]] {
      outgrow_slab(bytes);
    }
  }

  // The lane holds a slab, and nobody has changed that since its last call.
  [[nodiscard]] bool holds_slab() const { return slab().word() == word_; }
  // The one that it holds, or held last, or else any. Any thread.
  [[nodiscard]] Slab& slab() const { return *slab_.load(std::memory_order_relaxed); }
  // It holds none from now on, and nothing of it is changed.
  void let_slab_go();
  // The same in the middle of a call that does not go on.
  void lose_slab();
  // The next call finds that it holds none.
  void wake_at_next_call();

  std::atomic<std::uint64_t> live{0};  // bytes of the pool's blocks of this lane, whole granules
  Debt debt;

 private:
  Opened ask_for_slab(const Opening& opening);
  bool take_slab(const SlabWish& wish, Nanos now);
  void make_room();
  void outgrow_slab(std::uint64_t grown);
  void get_memory(std::uint64_t bytes);
  void take_back();
  [[nodiscard]] std::uint64_t held_beyond(std::uint64_t more) const;

  // The slab is this lane's, or was until a fork or the thread's end came in the middle of the call
  // at hand.
  [[nodiscard]] bool may_claim() const { return SlabWord::lane(slab().word()) == number_; }

  static constexpr std::uint64_t kNoWord = UINT64_MAX;  // no slab ever has it

  Shared* shared_ = nullptr;
  std::uint32_t number_ = 0;
  CallCounts* counts_ = nullptr;
  std::atomic<Slab*> slab_{nullptr};
  std::uint64_t word_ = kNoWord;  // by which the lane holds it
  Backoff refusals_;
  std::uint64_t outgrown_ = 0;  // bytes by which the pool has grown since a call was served
  std::uint64_t served_ = 0;    // calls, by then
  // Of the slab's memory, which went back as the pool outgrew it. kAll: the pool gives way once the
  // plan places blocks again. kRest: it does, as far as each call may.
  enum class Lent : std::uint8_t { kNothing, kAll, kRest };
  Lent lent_ = Lent::kNothing;
  Backoff yields_;             // iterations until the pool is to give way so again
  Nanos yielded_at_;           // it began to, last
  bool slabs_in_use_ = false;  // it was refused one since all were in use
  // Ends of iterations until nothing is owed of what was alive as the slab was opened.
  std::uint32_t owing_ends_ = 0;
};

}  // namespace memo

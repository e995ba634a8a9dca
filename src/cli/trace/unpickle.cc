// See unpickle.h. Source: CPython's Lib/pickletools.py tells each opcode's arguments and effect.
// Cold.
#include "src/cli/trace/unpickle.h"

#include <cstdio>
#include <limits>
#include <unordered_map>

namespace memo::cli {

namespace {

// More than any snapshot has, and still an index of 32 bits.
constexpr std::size_t kMaxValues = std::size_t{1} << 28U;
constexpr std::uint32_t kMark = std::numeric_limits<std::uint32_t>::max();  // on the stack

}  // namespace

class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) { out_.bytes_ = bytes; }

  std::optional<Pickled> read(std::string& error) {
    if (bytes_.size() > std::numeric_limits<std::uint32_t>::max()) {
      error = "byte 0: the file has more than 4 GiB";
      return std::nullopt;
    }
    while (error_.empty() && !ended_) {
      at_ = next_;
      step();
    }
    if (error_.empty()) {
      refuse_circles();
    }
    if (!error_.empty()) {
      error = "byte " + std::to_string(at_) + ": " + error_;
      return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  using Kind = Pickled::Kind;
  using Index = Pickled::Index;

  void fail(std::string reason) {
    if (error_.empty()) {
      error_ = std::move(reason);
    }
  }

  // The next bytes as an unsigned number, the lowest first.
  std::uint64_t little_endian(std::size_t count) {
    if (bytes_.size() - next_ < count) {
      fail("the file is cut short");
      next_ = bytes_.size();
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[next_ + i])} << (8 * i);
    }
    next_ += count;
    return value;
  }

  void push(Kind kind, std::uint64_t data = 0, std::uint32_t length = 0) {
    if (out_.values_.size() >= kMaxValues) {
      return fail("there are too many values");
    }
    stack_.push_back(static_cast<Index>(out_.values_.size()));
    out_.values_.push_back({data, length, static_cast<std::uint32_t>(at_), kind});
  }

  void push_container(Kind kind, std::vector<Index> items) {
    out_.containers_.push_back(std::move(items));
    push(kind, out_.containers_.size() - 1);
  }

  void push_text(std::size_t width) {
    const std::uint64_t length = little_endian(width);
    if (length > bytes_.size() - next_) {
      return fail("a text of " + std::to_string(length) + " bytes is longer than the file");
    }
    push(Kind::kText, next_, static_cast<std::uint32_t>(length));
    next_ += length;
  }

  // Two's complement of `count` bytes.
  void push_integer(std::uint64_t count) {
    if (count > 9) {
      return fail("a number of " + std::to_string(count) + " bytes; a snapshot's have 64 bits");
    }
    const bool wide = count == 9;
    const std::uint64_t low = little_endian(wide ? 8 : count);
    const std::uint64_t high = wide ? little_endian(1) : 0;
    if (!error_.empty()) {
      return;
    }
    if (wide && high != 0) {
      return fail("a number of more than 64 bits");
    }
    const bool negative = !wide && count > 0 && (low >> (8 * count - 1) & 1U) != 0;
    push(negative ? Kind::kNegative : Kind::kNumber, low);
  }

  // The items above the topmost mark, taken off with it.
  std::vector<Index> pop_to_mark() {
    std::size_t from = stack_.size();
    while (from > 0 && stack_[from - 1] != kMark) {
      --from;
    }
    if (from == 0) {
      fail("there is no mark to go back to");
      return {};
    }
    std::vector<Index> items(stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
    stack_.resize(from - 1);
    return items;
  }

  std::vector<Index> pop(std::size_t count) {
    if (stack_.size() < count) {
      fail("there is nothing to take from");
      return {};
    }
    std::vector<Index> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    for (const Index item : items) {
      if (item == kMark) {
        fail("a mark is in the way");
        return {};
      }
    }
    return items;
  }

  // Puts items into the container that is on top now.
  void extend(Kind kind, const std::vector<Index>& items) {
    if (!error_.empty()) {
      return;
    }
    if (stack_.empty() || stack_.back() == kMark || out_.values_[stack_.back()].kind != kind) {
      return fail(kind == Kind::kList ? "there is no list to put it in"
                                      : "there is no dictionary to put it in");
    }
    if (kind == Kind::kDictionary && items.size() % 2 != 0) {
      return fail("a dictionary's key has no value");
    }
    std::vector<Index>& all = out_.containers_[out_.values_[stack_.back()].data];
    all.insert(all.end(), items.begin(), items.end());
  }

  void remember(std::uint64_t key) {
    if (!error_.empty()) {
      return;
    }
    if (stack_.empty() || stack_.back() == kMark) {
      return fail("there is nothing to remember");
    }
    memo_[key] = stack_.back();
  }

  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (error_.empty() && found == memo_.end()) {
      return fail("value " + std::to_string(key) + " was never remembered");
    }
    if (error_.empty()) {
      stack_.push_back(found->second);
    }
  }

  void begin() {
    const std::uint64_t protocol = little_endian(1);
    if (error_.empty() && (protocol < 2 || protocol > 5)) {
      fail("protocol " + std::to_string(protocol) + "; 2 to 5 are known");
    }
  }

  void stop() {
    ended_ = true;
    if (stack_.size() != 1 || stack_.back() == kMark) {
      return fail("the end comes with " + std::to_string(stack_.size()) + " values instead of one");
    }
    if (next_ != bytes_.size()) {
      return fail("the pickle ends here, and the file does not");
    }
    out_.root_ = stack_.back();
  }

  void step() {
    const auto code = static_cast<unsigned char>(little_endian(1));
    if (!error_.empty()) {
      return;
    }
    if (at_ == 0 && code != 0x80) {
      return fail("this is no pickle of protocol 2 to 5");
    }
    if (!step_scalar(code) && !step_container(code) && !step_memo(code)) {
      char what[8];
      std::snprintf(what, sizeof what, "0x%02x", code);
      fail(std::string("opcode ") + what +
           " is refused: a snapshot holds dictionaries, lists, tuples, text and numbers alone");
    }
  }

  bool step_scalar(unsigned char code) {
    switch (code) {
      case 0x80:  // PROTO
        begin();
        return true;
      case 0x95:  // FRAME: what follows is read as it comes
        if (little_endian(8) > bytes_.size() - next_) {
          fail("the file is cut short: this frame goes beyond its end");
        }
        return true;
      case '.':
        stop();
        return true;
      case 'N':
        push(Kind::kNone);
        return true;
      case 0x88:
        push(Kind::kTrue);
        return true;
      case 0x89:
        push(Kind::kFalse);
        return true;
      case 'K':
        push(Kind::kNumber, little_endian(1));
        return true;
      case 'M':
        push(Kind::kNumber, little_endian(2));
        return true;
      case 'J':
        push_integer(4);
        return true;
      case 0x8a:
        push_integer(little_endian(1));
        return true;
      case 0x8b:
        push_integer(little_endian(4));
        return true;
      case 'G':
        push(Kind::kReal, little_endian(8));
        return true;
      case 0x8c:
        push_text(1);
        return true;
      case 'X':
        push_text(4);
        return true;
      case 0x8d:
        push_text(8);
        return true;
      default:
        return false;
    }
  }

  bool step_container(unsigned char code) {
    switch (code) {
      case '(':
        stack_.push_back(kMark);
        return true;
      case ']':
        push_container(Kind::kList, {});
        return true;
      case '}':
        push_container(Kind::kDictionary, {});
        return true;
      case ')':
        push_container(Kind::kTuple, {});
        return true;
      case 't':
        push_container(Kind::kTuple, pop_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_container(Kind::kTuple, pop(code - 0x84U));
        return true;
      case 'a':
        extend(Kind::kList, pop(1));
        return true;
      case 'e':
        extend(Kind::kList, pop_to_mark());
        return true;
      case 's':
        extend(Kind::kDictionary, pop(2));
        return true;
      case 'u':
        extend(Kind::kDictionary, pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool step_memo(unsigned char code) {
    switch (code) {
      case 'q':
        remember(little_endian(1));
        return true;
      case 'r':
        remember(little_endian(4));
        return true;
      case 0x94:  // MEMOIZE
        remember(memo_.size());
        return true;
      case 'h':
        recall(little_endian(1));
        return true;
      case 'j':
        recall(little_endian(4));
        return true;
      default:
        return false;
    }
  }

  // A walk over the values must not go round for ever.
  void refuse_circles() {
    if (const std::optional<Index> found = out_.circle()) {
      at_ = out_.byte(*found);
      fail("a container that holds itself");
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 0;    // of the opcode that is read
  std::size_t next_ = 0;  // not read yet
  bool ended_ = false;
  std::string error_;
  std::vector<Index> stack_;
  std::unordered_map<std::uint64_t, Index> memo_;
  Pickled out_;
};

std::optional<Pickled> Pickled::read(std::string_view bytes, std::string& error) {
  return PickleReader(bytes).read(error);
}

}  // namespace memo::cli

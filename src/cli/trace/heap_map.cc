// Draws a plan as SVG. Cold.
#include "src/cli/trace/heap_map.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

namespace memo::cli {
namespace {

using dsa::Buffer;
using dsa::Bytes;
using dsa::Time;

// All in pixels.
constexpr double kWidth = 1200;
constexpr double kHeight = 640;
constexpr double kLeft = 90;
constexpr double kTop = 60;
constexpr double kBottom = 50;
constexpr double kRight = 30;
constexpr std::size_t kMaxTooltips = 5000;
// Outlines part rectangles of a few thousand; of more, they would be all that is seen.
constexpr std::size_t kMaxOutlines = 4000;

__attribute__((format(printf, 2, 3))) void append(std::string& out, const char* format, ...) {
  std::array<char, 512> text;
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  out.append(text.data(), std::min(static_cast<std::size_t>(length), text.size() - 1));
}

std::string escape_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// Calls visit(lower, upper) for each part of the lifetime in which the buffer is alive.
template <typename Visit>
void for_each_part(const Buffer& buffer, Visit visit) {
  Time from = buffer.lower;
  for (const dsa::Interval& gap : buffer.gaps) {
    if (from < gap.lower) {
      visit(from, gap.lower);
    }
    from = gap.upper;
  }
  if (from < buffer.upper) {
    visit(from, buffer.upper);
  }
}

class HeapMap {
 public:
  HeapMap(const dsa::Problem& problem, const dsa::Plan& plan, Bytes bound, const HeapMapText& text)
      : problem_(problem), plan_(plan), bound_(bound), text_(text) {
    if (!problem.buffers.empty()) {
      first_ = problem.buffers.front().lower;
      last_ = problem.buffers.front().upper;
    }
    for (const Buffer& buffer : problem.buffers) {
      first_ = std::min(first_, buffer.lower);
      last_ = std::max(last_, buffer.upper);
      for_each_part(buffer, [&](Time lower, Time upper) {
        change_[lower] += buffer.size;
        change_[upper] -= buffer.size;
      });
    }
    top_ = std::max({plan.height, bound, Bytes{1}});
  }

  std::string draw() {
    open();
    grid();
    rectangles();
    load();
    lines();
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  double x(Time time) const {
    const double length = static_cast<double>(last_) - static_cast<double>(first_);
    const double share =
        (static_cast<double>(time) - static_cast<double>(first_)) / std::max(length, 1.0);
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  double y(Bytes address) const {
    const double share = static_cast<double>(address) / static_cast<double>(top_);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }

  void open() {
    append(out_,
           "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" "
           "font-family=\"sans-serif\" "
           "font-size=\"12\">\n",
           kWidth, kHeight);
    out_ +=
        "<style>.b{stroke:#fff;stroke-width:.5}.g{stroke:#ddd;fill:none}.l{fill:none;stroke:#222}"
        ".d{stroke-dasharray:6 4}</style>\n";
    append(out_, "<rect width=\"%g\" height=\"%g\" fill=\"#fff\"/>\n", kWidth, kHeight);
    append(out_, "<text x=\"%g\" y=\"22\" font-size=\"16\">", kLeft);
    out_ += escape_xml(text_.title) + "</text>\n";
    const double ratio =
        bound_ > 0 ? static_cast<double>(plan_.height) / static_cast<double>(bound_) : 1;
    append(out_,
           "<text x=\"%g\" y=\"42\">%zu buffers, height %s, lower bound %s, ratio %.4f</text>\n",
           kLeft, problem_.buffers.size(), human_bytes(plan_.height).c_str(),
           human_bytes(bound_).c_str(), ratio);
  }

  void grid() {
    constexpr int kTicks = 8;
    for (int i = 0; i <= kTicks; ++i) {
      const auto address = static_cast<Bytes>(static_cast<double>(top_) * i / kTicks);
      append(out_, "<path class=\"g\" d=\"M%g %.1fH%g\"/>", kLeft, y(address), kWidth - kRight);
      append(out_, "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLeft - 6,
             y(address) + 4, human_bytes(address).c_str());
      const auto time = static_cast<Time>(
          static_cast<double>(first_) +
          (static_cast<double>(last_) - static_cast<double>(first_)) * i / kTicks);
      append(out_, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%lld</text>\n",
             kLeft + (kWidth - kLeft - kRight) * i / kTicks, kHeight - kBottom + 18,
             static_cast<long long>(time));
    }
    append(out_, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">time (steps)</text>\n",
           (kLeft + kWidth - kRight) / 2, kHeight - 10);
  }

  void rectangles() {
    const bool tooltips = problem_.buffers.size() <= kMaxTooltips;
    out_ += problem_.buffers.size() <= kMaxOutlines ? "<g class=\"b\">\n" : "<g>\n";
    // Two rectangles of one pixel row and column look the same: one is drawn.
    std::set<std::tuple<int, int, int, int>> drawn;
    for (std::size_t i = 0; i < problem_.buffers.size(); ++i) {
      const Buffer& buffer = problem_.buffers[i];
      const Bytes offset = plan_.offsets[i];
      if (buffer.size == 0) {
        continue;
      }
      for_each_part(buffer, [&](Time lower, Time upper) {
        const double left = x(lower);
        const double above = y(offset + buffer.size);
        // At least a third of a pixel, or it is not seen at all.
        const double width = std::max(x(upper) - left, 0.3);
        const double tall = std::max(y(offset) - above, 0.3);
        if (!tooltips && !drawn
                              .emplace(static_cast<int>(left * 3), static_cast<int>(above * 3),
                                       static_cast<int>(width * 3), static_cast<int>(tall * 3))
                              .second) {
          return;
        }
        // Neighbours differ: the golden angle spreads the hues of successive buffers.
        const int hue = static_cast<int>(i * 137 % 360);
        append(out_,
               "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
               "fill=\"hsl(%d,55%%,%d%%)\"",
               left, above, width, tall, hue, 58 + static_cast<int>(i % 3) * 8);
        if (!tooltips) {
          out_ += "/>\n";
          return;
        }
        out_ += "><title>";
        out_ += i < text_.ids.size() ? escape_xml(text_.ids[i]) : std::to_string(i);
        append(out_, ": %s at %lld, alive [%lld, %lld)</title></rect>\n",
               human_bytes(buffer.size).c_str(), static_cast<long long>(offset),
               static_cast<long long>(lower), static_cast<long long>(upper));
      });
    }
    out_ += "</g>\n";
  }

  // The sum of live sizes over time, and where it is greatest.
  void load() {
    if (change_.empty()) {
      return;
    }
    Bytes sum = 0;
    Bytes most = 0;
    Time fullest = first_;
    double last_x = -1;
    double last_y = -1;
    append(out_, "<path class=\"l\" stroke-opacity=\".7\" d=\"M%.1f %.1f", x(first_), y(0));
    for (const auto& [time, change] : change_) {
      sum += change;
      if (sum > most) {
        most = sum;
        fullest = time;
      }
      // Steps closer than half a pixel cannot be told apart.
      if (x(time) - last_x < 0.5 && std::abs(y(sum) - last_y) < 0.5) {
        continue;
      }
      last_x = x(time);
      last_y = y(sum);
      append(out_, "H%.1fV%.1f", last_x, last_y);
    }
    out_ += "\"/>\n";
    append(out_, "<path d=\"M%.1f %gV%g\" class=\"d\" stroke=\"#c00\"/>", x(fullest), kTop,
           kHeight - kBottom);
    append(out_,
           "<text x=\"%.1f\" y=\"%g\" fill=\"#c00\" text-anchor=\"%s\">fullest at %lld</text>\n",
           x(fullest) + (x(fullest) > kWidth / 2 ? -4 : 4), kHeight - kBottom + 34,
           x(fullest) > kWidth / 2 ? "end" : "start", static_cast<long long>(fullest));
  }

  void lines() {
    append(out_, "<path class=\"d\" stroke=\"#06c\" stroke-width=\"2\" d=\"M%g %.1fH%g\"/>", kLeft,
           y(bound_), kWidth - kRight);
    append(out_, "<text x=\"%g\" y=\"%.1f\" fill=\"#06c\" text-anchor=\"end\">lower bound</text>\n",
           kWidth - kRight, y(bound_) - 4);
  }

  const dsa::Problem& problem_;
  const dsa::Plan& plan_;
  Bytes bound_;
  const HeapMapText& text_;
  Time first_ = 0;
  Time last_ = 1;
  Bytes top_ = 1;
  std::map<Time, Bytes> change_;  // of the load
  std::string out_;
};

}  // namespace

std::string human_bytes(dsa::Bytes bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::string out;
  append(out, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return out;
}

std::string draw_heap_map(const dsa::Problem& problem, const dsa::Plan& plan,
                          dsa::Bytes lower_bound, const HeapMapText& text) {
  return HeapMap(problem, plan, lower_bound, text).draw();
}

}  // namespace memo::cli

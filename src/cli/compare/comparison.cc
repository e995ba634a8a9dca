// Statistics and output of `compare`. Cold.
#include "src/cli/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iomanip>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "src/cli/base/text_table.h"
#include "src/cli/compare/comparison_page.h"

namespace memo::cli {
namespace {

using nlohmann::json;

struct Quantity {
  const char* name;     // in JSON and CSV, with its unit
  const char* heading;  // in the table
  double scale;         // from the value to the table's unit
  int digits;
  double (*value)(const Usage&);
};

constexpr Quantity kQuantities[] = {
    {"wall_seconds", "wall s", 1, 3, [](const Usage& u) { return u.wall_seconds; }},
    {"user_seconds", "user s", 1, 2, [](const Usage& u) { return u.user_seconds; }},
    {"system_seconds", "system s", 1, 2, [](const Usage& u) { return u.system_seconds; }},
    {"minor_faults", "faults k", 1e-3, 1,
     [](const Usage& u) { return static_cast<double>(u.minor_faults); }},
    {"major_faults", "major faults", 1, 0,
     [](const Usage& u) { return static_cast<double>(u.major_faults); }},
    {"peak_rss_bytes", "peak RSS MiB", 1.0 / (1 << 20), 0,
     [](const Usage& u) { return static_cast<double>(u.peak_rss_bytes); }},
};

// The command's own figures that a table shows: its latencies and its time to the first answer.
bool is_headline(const std::string& name) {
  return name.starts_with("p50") || name.starts_with("p99") || name.starts_with("first");
}

std::set<std::string> reported_names(const std::vector<Contestant>& contestants) {
  std::set<std::string> names;
  for (const Contestant& contestant : contestants) {
    for (const Sample& sample : contestant.samples) {
      for (const auto& [name, value] : sample.reported) {
        names.insert(name);
      }
    }
  }
  return names;
}

std::vector<double> values(const Contestant& contestant, const Quantity& quantity) {
  std::vector<double> all;
  for (const Sample& sample : contestant.samples) {
    all.push_back(quantity.value(sample.usage));
  }
  return all;
}

std::vector<double> values(const Contestant& contestant, const std::string& reported) {
  std::vector<double> all;
  for (const Sample& sample : contestant.samples) {
    if (const auto found = sample.reported.find(reported); found != sample.reported.end()) {
      all.push_back(found->second);
    }
  }
  return all;
}

// All but those that were zero in every run, as major faults mostly are.
std::vector<Quantity> quantities_to_show(const std::vector<Contestant>& contestants) {
  std::vector<Quantity> shown;
  for (const Quantity& quantity : kQuantities) {
    for (const Contestant& contestant : contestants) {
      const std::vector<double> all = values(contestant, quantity);
      if (std::any_of(all.begin(), all.end(), [](double value) { return value != 0; })) {
        shown.push_back(quantity);
        break;
      }
    }
  }
  return shown;
}

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string cell(const std::vector<double>& all, double scale, int digits) {
  if (all.empty()) {
    return "-";
  }
  const Spread of = spread(all);
  return number(of.median * scale, digits) + " (" + number(of.least * scale, digits) + "-" +
         number(of.most * scale, digits) + ")";
}

std::optional<PageCell> page_cell(const std::vector<double>& all, double scale, int digits) {
  if (all.empty()) {
    return std::nullopt;
  }
  const Spread of = spread(all);
  return PageCell{cell(all, scale, digits), of.median, of.least, of.most};
}

const Contestant* find(const std::vector<Contestant>& contestants, const char* name) {
  const auto found =
      std::find_if(contestants.begin(), contestants.end(), [&](const Contestant& contestant) {
        return contestant.allocator.name == name && !contestant.samples.empty();
      });
  return found == contestants.end() ? nullptr : &*found;
}

// A quantity beside glibc's: sure where the two ranges lie apart.
struct Change {
  std::string words;  // "0.55 of glibc's time"
  bool less = false;
  bool more = false;
};

Change change(const Contestant& ours, const Contestant& theirs, const Quantity& quantity,
              const char* what) {
  const Spread mine = spread(values(ours, quantity));
  const Spread other = spread(values(theirs, quantity));
  const bool less = mine.most < other.least;
  const bool more = mine.least > other.most && other.median > 0;
  return {less || more ? number(mine.median / other.median, 2) + " of glibc's " + what
                       : std::string("no sure difference in ") + what,
          less, more};
}

// As a shell takes it, to be copied.
std::string words_of(const std::vector<std::string>& command) {
  std::string words;
  for (const std::string& word : command) {
    words += (words.empty() ? "" : " ") + shell_word(word);
  }
  return words;
}

json as_json(const std::vector<double>& all) {
  const Spread of = spread(all);
  return {
      {"median", of.median}, {"p99", of.p99}, {"min", of.least}, {"max", of.most}, {"runs", all}};
}

}  // namespace

Spread spread(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  const auto rank = std::ceil(0.99 * static_cast<double>(values.size()));
  return {median, values[static_cast<std::size_t>(rank) - 1], values.front(), values.back()};
}

std::map<std::string, double> last_json_numbers(std::string_view output) {
  std::map<std::string, double> numbers;
  while (!output.empty()) {
    const std::size_t end_before = output.substr(0, output.size() - 1).rfind('\n');
    const std::string_view line = output.substr(end_before + 1);  // npos + 1 is 0
    output.remove_suffix(line.size());
    const json value = line.starts_with('{') ? json::parse(line, nullptr, false) : json();
    if (value.is_object()) {
      for (const auto& [name, field] : value.items()) {
        if (field.is_number()) {
          numbers[name] = field.get<double>();
        }
      }
      return numbers;
    }
  }
  return numbers;
}

Answer answer_of(const std::vector<Contestant>& contestants,
                 const std::vector<std::string>& command) {
  constexpr const Quantity& kWall = kQuantities[0];
  constexpr const Quantity& kPeak = kQuantities[std::size(kQuantities) - 1];
  const Contestant* const ours = find(contestants, kOwnName);
  const Contestant* const glibc = find(contestants, "glibc");
  if (ours == nullptr || glibc == nullptr) {
    return {};
  }
  if (std::min(ours->samples.size(), glibc->samples.size()) < kEnoughRuns) {
    return {"With memomalloc: too few runs to tell; it takes " + std::to_string(kEnoughRuns) +
                " of each.",
            "To tell: memomalloc compare -- " + words_of(command)};
  }
  const Change time = change(*ours, *glibc, kWall, "time");
  const Change peak = change(*ours, *glibc, kPeak, "peak memory");
  const bool wins = time.less || peak.less;
  return {"With memomalloc: " + time.words + ", " + peak.words + ".",
          (!wins                    ? "To see why it wins nothing here: memomalloc doctor -- "
           : time.more || peak.more ? "If the one is worth the other: memomalloc run -- "
                                    : "To keep it: memomalloc run -- ") +
              words_of(command)};
}

std::string as_table(const std::vector<Contestant>& contestants) {
  std::vector<std::vector<std::string>> rows(1, {"allocator"});
  const std::set<std::string> names = reported_names(contestants);
  const std::vector<Quantity> shown = quantities_to_show(contestants);
  for (const Quantity& quantity : shown) {
    rows[0].emplace_back(quantity.heading);
  }
  rows[0].insert(rows[0].begin() + 2, "wall p99");
  for (const std::string& name : names) {
    if (is_headline(name)) {
      rows[0].push_back(name);
    }
  }
  for (const Contestant& contestant : contestants) {
    std::vector<std::string> row = {contestant.allocator.name};
    if (contestant.failures > 0) {
      row[0] += " (" + std::to_string(contestant.failures) + " failed, last with exit code " +
                std::to_string(contestant.last_failure) + ")";
    }
    for (const Quantity& quantity : shown) {
      row.push_back(cell(values(contestant, quantity), quantity.scale, quantity.digits));
    }
    const std::vector<double> wall = values(contestant, kQuantities[0]);
    row.insert(row.begin() + 2, wall.empty() ? "-" : number(spread(wall).p99, 3));
    for (const std::string& name : names) {
      if (is_headline(name)) {
        row.push_back(cell(values(contestant, name), 1, 3));
      }
    }
    rows.push_back(row);
  }
  std::string text = text_table(rows) +
                     "\nEach figure is the median of the runs, in brackets the least and the most; "
                     "peak RSS is the\n"
                     "largest process'.\n"
                     "Settings:\n";
  for (const Contestant& contestant : contestants) {
    const Allocator& a = contestant.allocator;
    text += "  " + a.name + ": " + a.note + (a.settings.empty() ? "" : ", " + a.settings) + "\n";
  }
  return text;
}

nlohmann::json as_json(const std::vector<Contestant>& contestants,
                       const std::vector<std::string>& command) {
  json rows = json::array();
  for (const Contestant& contestant : contestants) {
    json row = {{"allocator", contestant.allocator.name},
                {"library", contestant.allocator.library},
                {"settings", contestant.allocator.settings},
                {"runs", contestant.samples.size()},
                {"failures", contestant.failures}};
    for (const Quantity& quantity : kQuantities) {
      row[quantity.name] = as_json(values(contestant, quantity));
    }
    for (const std::string& name : reported_names({contestant})) {
      row["reported"][name] = as_json(values(contestant, name));
    }
    rows.push_back(row);
  }
  return {{"command", command}, {"allocators", rows}};
}

std::string as_page(const std::vector<Contestant>& contestants,
                    const std::vector<std::string>& command) {
  const std::vector<Quantity> shown = quantities_to_show(contestants);
  const std::set<std::string> names = reported_names(contestants);
  std::vector<PageRow> rows;
  std::vector<PageColumn> columns;
  for (const Quantity& quantity : shown) {
    columns.push_back({quantity.heading, {}});
  }
  for (const std::string& name : names) {
    if (is_headline(name)) {
      columns.push_back({name, {}});
    }
  }
  for (const Contestant& contestant : contestants) {
    const Allocator& a = contestant.allocator;
    const std::string failed =
        contestant.failures > 0 ? std::to_string(contestant.failures) + " failed; " : "";
    rows.push_back({a.name, failed + a.note + (a.settings.empty() ? "" : ", " + a.settings),
                    a.name.starts_with(kOwnName)});
    std::size_t column = 0;
    for (const Quantity& quantity : shown) {
      columns[column++].cells.push_back(
          page_cell(values(contestant, quantity), quantity.scale, quantity.digits));
    }
    for (const std::string& name : names) {
      if (is_headline(name)) {
        columns[column++].cells.push_back(page_cell(values(contestant, name), 1, 3));
      }
    }
  }
  Answer answer = answer_of(contestants, command);
  if (answer.what.empty()) {
    answer = {"The same command under each allocator",
              "Add memomalloc and glibc to --allocators to see what the library wins."};
  }
  return comparison_page(words_of(command), answer.what, answer.next, rows, columns);
}

std::string as_csv(const std::vector<Contestant>& contestants) {
  const std::set<std::string> names = reported_names(contestants);
  std::ostringstream csv;
  csv.precision(12);
  csv << "allocator,run";
  for (const Quantity& quantity : kQuantities) {
    csv << ',' << quantity.name;
  }
  for (const std::string& name : names) {
    csv << ',' << std::quoted(name, '"', '"');  // as RFC 4180 has it: it may be any text
  }
  csv << '\n';
  for (const Contestant& contestant : contestants) {
    for (std::size_t run = 0; run < contestant.samples.size(); ++run) {
      const Sample& sample = contestant.samples[run];
      csv << contestant.allocator.name << ',' << run;
      for (const Quantity& quantity : kQuantities) {
        csv << ',' << quantity.value(sample.usage);
      }
      for (const std::string& name : names) {
        const auto found = sample.reported.find(name);
        csv << ',';
        if (found != sample.reported.end()) {
          csv << found->second;
        }
      }
      csv << '\n';
    }
  }
  return csv.str();
}

}  // namespace memo::cli

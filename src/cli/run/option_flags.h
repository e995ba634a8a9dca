// The rows of src/base/options.def as command line options: MEMOMALLOC_STATS_FILE is --stats-file.
// Cold.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>

#include "src/cli/base/process.h"

namespace memo::cli {

struct OptionRow {
  std::string_view type;  // as options.def spells it: Size, Number, Flag, Text, Path, Choice, Trust
  std::string_view name;  // without MEMOMALLOC_
  std::string initial;    // the default, as a user would write it
  std::string_view unit;
  std::string_view help;
};

// Every row of options.def, in its order.
std::vector<OptionRow> option_rows();

// "--stats-file" for STATS_FILE.
std::string flag_of(std::string_view name);

// Adds an option for each row to an app; after parsing, tells the variables to set. An option that
// is given takes the place of its variable, even by an empty value.
class OptionFlags {
 public:
  explicit OptionFlags(CLI::App& app);
  [[nodiscard]] Environment environment() const;

 private:
  const CLI::App& app_;
  std::map<std::string, std::string> values_;  // by row name
  std::map<std::string, bool> set_;            // the rows of type Flag
};

}  // namespace memo::cli

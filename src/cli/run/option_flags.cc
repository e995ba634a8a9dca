// Options from the one table of variables. Cold.
#include "src/cli/run/option_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <filesystem>

#include "dsa/planner.h"
#include "src/base/options.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/files.h"
#include "src/cli/run/opening.h"

namespace memo::cli {
namespace {

std::string show(std::uint64_t value, std::string_view type) {
  constexpr struct {
    std::uint64_t unit;
    const char* letter;
  } kUnits[] = {{1U << 30U, "G"}, {1U << 20U, "M"}, {1U << 10U, "K"}};
  for (const auto& [unit, letter] : kUnits) {
    if (type == "Size" && value != 0 && value % unit == 0) {
      return std::to_string(value / unit) + letter;
    }
  }
  return std::to_string(value);
}
std::string show(const option::Text& value, std::string_view /*type*/) {
  return std::string(value.view());
}
std::string show(Choice value, std::string_view /*type*/) {
  constexpr const char* kNames[] = {"auto", "always", "never"};
  return kNames[static_cast<std::size_t>(value)];
}

std::string show(Trust value, std::string_view /*type*/) {
  return value == Trust::kGroup ? "group" : "owner";
}
std::string show(Numa value, std::string_view /*type*/) {
  constexpr const char* kNames[] = {"local", "interleave", "off"};
  return kNames[static_cast<std::size_t>(value)];
}

// What the library would not take is refused here. Each check answers "" or its complaint.

// A whole number, with a unit letter where `units` has it.
std::string check_number(const std::string& text, std::string_view units) {
  const bool has_unit = !text.empty() && units.find(text.back()) != std::string_view::npos;
  const char* const end = text.data() + text.size() - (has_unit ? 1 : 0);
  std::uint64_t value = 0;
  const auto [after, error] = std::from_chars(text.data(), end, value);
  const char letter = has_unit ? static_cast<char>(std::toupper(text.back())) : ' ';
  const int shift = letter == 'G' ? 30 : letter == 'M' ? 20 : letter == 'K' ? 10 : 0;
  if (error == std::errc() && after == end && value <= (UINT64_MAX - 9) >> shift) {
    return "";
  }
  return "'" + text + "' is " +
         (error == std::errc::invalid_argument || after != end ? "not a" : "too great a") +
         " number" + (units.empty() ? "" : " (units: K, M, G)");
}

std::string check_text(const std::string& text) {
  constexpr std::size_t kMaxLength = sizeof(option::Text::value) - 1;
  return text.size() <= kMaxLength
             ? ""
             : "a value of " + std::to_string(text.size()) + " bytes is too long; it may have " +
                   std::to_string(kMaxLength);
}

// Before the program runs for hours, its outputs are checked. A path with %p or %h is not known
// yet, and an empty one is none.
std::string check_path(const std::string& path) {
  return path.empty() || path.find('%') != std::string::npos ? "" : unwritable(path);
}

// A cache may be one to read only, and is made where it is not there.
std::string check_cache(const std::string& path) {
  std::error_code failed;
  return std::filesystem::exists(path, failed) && !std::filesystem::is_directory(path, failed)
             ? path + ": is no directory; plans are files in one"
             : "";
}

std::string check_planner(const std::string& text) {
  return dsa::find_planner(text) != nullptr
             ? ""
             : "there is no planner '" + text + "'; `memomalloc planners` lists them";
}

// What may follow an option of a type, and its complaint about anything else.
struct OptionKind {
  std::string_view type;
  const char* shown;
  CLI::Validator check;
};

const OptionKind& kind_of(std::string_view type) {
  static const std::vector<OptionKind> kKinds = {
      {"Size", "SIZE", {[](std::string& text) { return check_number(text, "KMGkmg"); }, ""}},
      {"Number", "NUMBER", {[](std::string& text) { return check_number(text, ""); }, ""}},
      {"Choice", "auto|always|never", CLI::IsMember({"auto", "always", "never"}).description("")},
      {"Trust", "owner|group", CLI::IsMember({"owner", "group"}).description("")},
      {"Numa", "local|interleave|off",
       CLI::IsMember({"local", "interleave", "off"}).description("")},
      {"Path", "FILE", {[](std::string& text) { return check_text(text); }, ""}},
      {"Text", "TEXT", {[](std::string& text) { return check_text(text); }, ""}},
  };
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [&](const OptionKind& kind) { return kind.type == type; });
}

// What may follow the option of a row.
std::string value_name(const OptionRow& row, const OptionKind& kind) {
  if (row.unit == "directory") {
    return "DIRECTORY|1";
  }
  if (row.type != "Text" && row.type != "Number") {
    return kind.shown;
  }
  std::string name(row.unit);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

// The rows whose options come first in the help.
bool is_common(std::string_view name) {
  constexpr std::string_view kCommon[] = {"PLANS",  "TRACE_FILE", "STATS_FILE",
                                          "STATUS", "VERBOSE",    "OBSERVE"};
  return std::ranges::find(kCommon, name) != std::end(kCommon);
}

}  // namespace

std::vector<OptionRow> option_rows() {
  const Options defaults;
  return {
#define OPTION(type, name, initial, unit, help) \
  {#type, #name, show(defaults.name, #type), unit, help},
#include "src/base/options.def"
#undef OPTION
  };
}

std::string flag_of(std::string_view name) {
  std::string flag = "--";
  for (const char c : name) {
    flag += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return flag;
}

OptionFlags::OptionFlags(CLI::App& app) : app_(app) {
  for (const OptionRow& row : option_rows()) {
    const std::string name(row.name);
    const std::string help(row.help);
    if (row.type == "Flag") {
      // The table says what the value 1 does; a flag has no value.
      CLI::Option* flag =
          app.add_flag(flag_of(name), set_[name], help.substr(help.starts_with("1: ") ? 3 : 0));
      flag->group(is_common(name) ? flag->get_group() : kAdvanced);
      continue;
    }
    CLI::Option* option = app.add_option(flag_of(name), values_[name], help);
    const OptionKind& kind = kind_of(row.type);
    option->type_name(value_name(row, kind))
        ->group(is_common(name) ? option->get_group() : kAdvanced);
    option->check(kind.check)->default_str(row.initial);
    if (row.type == "Path") {
      const auto check = [cache = name == "PLANS"](std::string& text) {
        return cache ? check_cache(text) : check_path(text);
      };
      option->check(CLI::Validator(check, ""));
    }
    if (name == "OPEN") {
      option->check(CLI::Validator([](std::string& text) { return check_openings(text); }, ""));
    }
    if (name == "PLANNER") {
      option->check(CLI::Validator([](std::string& text) { return check_planner(text); }, ""));
    }
  }
}

Environment OptionFlags::environment() const {
  Environment environment;
  for (const OptionRow& row : option_rows()) {
    const auto value = values_.find(std::string(row.name));
    if (value != values_.end() && app_.count(flag_of(row.name)) > 0) {
      // The command's processes may go to other folders.
      const bool is_path = row.type == "Path" && !value->second.empty() && value->second != "1";
      environment["MEMOMALLOC_" + value->first] =
          is_path ? std::filesystem::absolute(value->second).string() : value->second;
    }
  }
  for (const auto& [name, set] : set_) {
    if (app_.count(flag_of(name)) > 0) {
      environment["MEMOMALLOC_" + name] = set ? "1" : "0";
    }
  }
  return environment;
}

}  // namespace memo::cli

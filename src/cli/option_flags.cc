// Options from the one table of variables. Cold.
#include "src/cli/option_flags.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "dsa/planner.h"
#include "src/base/options.h"

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

// Empty if `text` is a whole number, with a unit letter where `units` has it; else the complaint.
std::string check_number(const std::string& text, std::string_view units) {
  const bool has_unit = !text.empty() && units.find(text.back()) != std::string_view::npos;
  const auto digits_end = text.end() - (has_unit ? 1 : 0);
  const bool good =
      digits_end != text.begin() &&
      std::all_of(text.begin(), digits_end, [](unsigned char c) { return std::isdigit(c) != 0; });
  return good ? "" : "'" + text + "' is not a number" + (units.empty() ? "" : " (units: K, M, G)");
}

// Empty if `text` names a planner; else the complaint.
std::string check_planner(const std::string& text) {
  return dsa::find_planner(text) != nullptr
             ? ""
             : "there is no planner '" + text + "'; `memomalloc planners` lists them";
}

// What may follow an option of a type, and its complaint about anything else.
struct Kind {
  std::string_view type;
  const char* shown;
  CLI::Validator check;
};

const Kind& kind_of(std::string_view type) {
  static const std::vector<Kind> kKinds = {
      {"Size", "SIZE", {[](std::string& text) { return check_number(text, "KMGkmg"); }, ""}},
      {"Number", "NUMBER", {[](std::string& text) { return check_number(text, ""); }, ""}},
      {"Choice", "auto|always|never", CLI::IsMember({"auto", "always", "never"}).description("")},
      {"Path", "FILE", {[](std::string&) { return std::string(); }, ""}},
      {"Text", "TEXT", {[](std::string&) { return std::string(); }, ""}},
  };
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [&](const Kind& kind) { return kind.type == type; });
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

OptionFlags::OptionFlags(CLI::App& app) {
  for (const OptionRow& row : option_rows()) {
    const std::string name(row.name);
    const std::string help(row.help);
    if (row.type == "Flag") {
      app.add_flag(flag_of(name), set_[name], help);
      continue;
    }
    CLI::Option* option = app.add_option(flag_of(name), values_[name], help);
    const Kind& kind = kind_of(row.type);
    option->type_name(kind.shown)->check(kind.check)->default_str(row.initial);
    if (name == "PLANNER") {
      option->check(CLI::Validator([](std::string& text) { return check_planner(text); }, ""));
    }
  }
}

Environment OptionFlags::environment() const {
  Environment environment;
  for (const auto& [name, value] : values_) {
    if (!value.empty()) {
      environment["MEMOMALLOC_" + name] = value;
    }
  }
  for (const auto& [name, set] : set_) {
    if (set) {
      environment["MEMOMALLOC_" + name] = "1";
    }
  }
  return environment;
}

}  // namespace memo::cli

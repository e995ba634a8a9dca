// Reads command lines with CLI11. Cold.
#include "src/cli/base/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <sstream>

#include "src/base/nearest_name.h"
#include "src/cli/base/command.h"

namespace memo::cli {
namespace {

// The bytes of the character that begins at `at`, if it is one of UTF-8 or a line's end; 0: a
// terminal is not to see it.
std::size_t character(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) {
    return first == '\n' || first == '\t' || (first >= ' ' && first < 0x7f) ? 1 : 0;
  }
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > text.size()) {
    return 0;
  }
  for (std::size_t i = at + 1; i < at + length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) {
      return 0;
    }
  }
  // U+0080 to U+009F control terminals, too.
  return first == 0xc2 && byte(at + 1) < 0xa0 ? 0 : length;
}

// What may follow an option: "FILE", "SIZE". CLI11 adds what a check allows, which the text says.
std::string value_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) {
    return "";
  }
  std::string text = option.get_type_name();
  for (const std::string_view kind : {"UINT", "INT", "FLOAT"}) {
    if (text.starts_with(kind)) {
      text = "NUMBER";
    }
  }
  const bool many = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  return (text.empty() ? "" : " " + text) + (many ? ",..." : "");
}

// "-o, --output FILE", or a positional's name.
std::string heading_of(const CLI::Option& option) {
  if (option.get_positional()) {
    return option.get_name(true);
  }
  std::string text;
  for (const std::string& name : option.get_snames()) {
    text += "-" + name + ", ";
  }
  return (text.empty() ? "    " : text) + "--" + option.get_lnames().front() + value_of(option);
}

// A text's words in lines that fit a terminal, the first beside the heading where there is room.
std::string row(const std::string& heading, const std::string& text) {
  constexpr std::size_t kText = 28;
  constexpr std::size_t kWidth = 100;
  std::string line = "  " + heading;
  std::size_t column = line.size();
  if (column + 2 > kText) {
    line += '\n';
    column = 0;
  }
  line.append(kText - column, ' ');
  column = kText;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column + word.size() > kWidth) {
      line += '\n' + std::string(kText, ' ');
      column = kText;
    } else if (column != kText) {
      line += ' ';
    }
    line += word;
    column += word.size() + 1;
  }
  return line + '\n';
}

// The rows of a section of the help, with its title; "" if it has none.
std::string section(const CLI::App& app, const std::string& title,
                    const std::function<bool(const CLI::Option&)>& belongs) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (belongs(*option)) {
      const std::string initial = option->get_default_str();
      text += row(heading_of(*option), option->get_description() +
                                           (initial.empty() ? "" : " [default: " + initial + "]"));
    }
  }
  return text.empty() ? "" : '\n' + title + ":\n" + text;
}

// How to call it; what it does; its arguments, its options, and those that few need.
std::string help(const CLI::App& app) {
  const auto rare = [](const CLI::Option& option) { return option.get_group() == kAdvanced; };
  std::string usage = "usage: memomalloc " + app.get_name() + " [OPTIONS]";
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      const std::string name =
          option->get_name(true) + (option->get_expected_max() > 1 ? "..." : "");
      usage += option->get_required() ? " " + name : " [" + name + "]";
    }
  }
  usage += app.get_prefix_command() ? " -- COMMAND..." : "";
  return usage + "\n\n" + app.get_description() + "\n" +
         section(app, "Arguments", [](const auto& option) { return option.get_positional(); }) +
         section(app, "Options",
                 [&](const auto& option) { return !option.get_positional() && !rare(option); }) +
         section(app, "Advanced", rare) +
         (app.get_footer().empty() ? "" : '\n' + app.get_footer() + '\n');
}

int no_such_option(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& one : option->get_lnames()) {
      names.push_back("--" + one);
    }
  }
  return complain(app, "there is no option '" + name + "'" + hint(name, names) + help_of(app));
}

// What is wrong with a command line, in the words of the other messages instead of CLI11's.
std::string in_plain_words(const CLI::ParseError& error) {
  std::string text = error.what();
  const auto part = [&](std::string_view before, std::string_view after) {
    const std::size_t from = before.empty() ? 0 : text.find(before) + before.size();
    return text.substr(from, after.empty() ? std::string::npos : text.find(after) - from);
  };
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
      text.ends_with(" is required")) {
    return "which " + part("", " is required") + "?";
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.ends_with(" missing")) {
    return part("", ":") + ": a value is missing";
  }
  return text;
}

}  // namespace

std::string hint(std::string_view word, const std::vector<std::string>& names) {
  NearestName nearest(word);
  for (const std::string& name : names) {
    nearest.offer(name);
  }
  const std::string_view found = nearest.found();
  return found.empty() ? "; " : "; did you mean '" + std::string(found) + "'? ";
}

std::string help_of(const CLI::App& app) {
  return "`memomalloc " + app.get_name() + " --help` lists the options";
}

std::string printable(std::string text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character(text, at);
    if (length == 0) {
      text[at] = '?';
    }
    at += std::max<std::size_t>(length, 1);
  }
  return text;
}

int complain(const CLI::App& app, const std::string& what) {
  std::fprintf(stderr, "memomalloc %s: %s\n", app.get_name().c_str(), printable(what).c_str());
  return kBadInput;
}

int refuse(const std::string& reason, std::string_view advice) {
  std::fprintf(stderr, "%s; %.*s\n", printable(reason).c_str(), static_cast<int>(advice.size()),
               advice.data());
  return kBadInput;
}

CLI::Validator bytes() {
  const auto convert = [](std::string& text) {
    std::string complaint = "'" + text + "' is not a number of bytes below 2^63 (units: K, M, G)";
    try {  // CLI11's own message lists thirty units
      const bool good = !text.starts_with('-') && CLI::AsSizeValue(false)(text).empty();
      std::uint64_t count = 0;  // planners count in signed numbers: a greater one would be none
      return good && CLI::detail::lexical_cast(text, count) && count <= INT64_MAX ? "" : complaint;
    } catch (const CLI::ParseError&) {
      return complaint;
    }
  };
  return {convert, ""};
}

CLI::Validator not_negative() {
  const auto check = [](std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= 0;
    return good ? "" : "'" + text + "' is not a number of 0 or more";
  };
  return {check, ""};
}

CLI::Validator process_number() {
  const auto check = [](std::string& text) {
    int value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value > 0;
    return good ? "" : "'" + text + "' is not the number of a process";
  };
  return {check, ""};
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  app.name(argv[0]);
  app.set_help_flag("-h,--help", "show this help");
  // The last counts, so that an alias may set one.
  for (CLI::Option* option : app.get_options()) {
    if (option->get_expected_max() == 1 && !option->get_positional()) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success&) {
    std::fputs(help(app).c_str(), stdout);
    return kDone;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> surplus = app.remaining();
    const auto option = std::ranges::find_if(
        surplus, [](const std::string& word) { return word.starts_with('-'); });
    return option != surplus.end()
               ? no_such_option(app, *option)
               : complain(app, "unexpected '" + surplus.front() + "'; " + help_of(app));
  } catch (const CLI::ParseError& error) {
    const std::string what = in_plain_words(error);
    return complain(app, what + (what.ends_with('?') ? " " : "; ") + help_of(app));
  }
  return std::nullopt;
}

std::optional<int> parse_listing(CLI::App& app, int argc, char** argv, bool& json) {
  app.add_flag("--json", json, "as JSON");
  return parse(app, argc, argv);
}

std::optional<int> parse_with_command(CLI::App& app, int argc, char** argv,
                                      std::vector<std::string>& command) {
  app.prefix_command();
  char** const end = argv + argc;
  char** const dashes = std::find(argv, end, std::string_view("--"));
  if (auto code = parse(app, static_cast<int>(dashes - argv), argv)) {
    return code;
  }
  command = app.remaining();
  if (!command.empty() && command.front().starts_with('-')) {
    return no_such_option(app, command.front());
  }
  // Behind the command's first word, `--` is the command's own.
  command.insert(command.end(), command.empty() && dashes != end ? dashes + 1 : dashes, end);
  if (command.empty()) {
    return complain(app, "which command? Put it after `--`: memomalloc " + std::string(argv[0]) +
                             " -- python infer.py");
  }
  if (command.front().starts_with('-')) {
    return no_such_option(app, command.front());
  }
  return std::nullopt;
}

}  // namespace memo::cli

// Reads command lines with CLI11. Cold.
#include "src/cli/base/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>

#include "src/base/nearest_name.h"
#include "src/cli/base/command.h"

namespace memo::cli {
namespace {

// The bytes of the character that begins at `at`, if it is one of UTF-8 or a line's end; 0: a terminal
// is not to see it.
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

// What a message quotes of a hostile file must not control the terminal.
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

// An option's help as a stranger reads it: what may follow it and its default, and a text that fits a
// terminal; which options exclude which is said where it happens.
class PlainHelp : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (!option->get_option_text().empty()) {
      return " " + option->get_option_text();
    }
    if (option->get_type_size() == 0) {
      return "";
    }
    std::string text = option->get_type_name();
    for (const std::string kind : {"UINT", "INT", "FLOAT"}) {
      if (text.starts_with(kind + ":")) {
        text.erase(0, kind.size() + 1);  // "INT:INT in [1 - 100]"
      }
      if (text.starts_with(kind)) {
        text.replace(0, kind.size(), "NUMBER");
      }
    }
    const std::string initial = option->get_default_str();
    text += initial.empty() ? "" : "=" + initial;
    text += option->get_expected_max() == CLI::detail::expected_max_vector_size ? " ..." : "";
    return text.empty() ? "" : " " + text;
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    constexpr std::size_t kWidth = 100;
    const std::string name =
        "  " + make_option_name(option, is_positional) + make_option_opts(option);
    std::string line = name;
    if (name.size() >= get_column_width()) {
      line += "\n";
      line.append(get_column_width(), ' ');
    } else {
      line.append(get_column_width() - name.size(), ' ');
    }
    std::string text;
    std::size_t column = get_column_width();
    std::istringstream words(make_option_desc(option));
    for (std::string word; words >> word; column += word.size() + 1) {
      if (column + word.size() > kWidth) {
        text += "\n" + std::string(get_column_width(), ' ');
        column = get_column_width();
      } else if (!text.empty()) {
        text += " ";
      }
      text += word;
    }
    return line + text + "\n";
  }
};

std::string help(const CLI::App& app) {
  std::string text = app.help();
  if (const std::size_t at = text.find("[OPTIONS]");
      at != std::string::npos && app.get_prefix_command()) {
    text.insert(at + 9, " -- COMMAND...");
  }
  if (const std::size_t at = text.find("Usage: "); at != std::string::npos) {
    text.insert(at + 7, "memomalloc ");
  }
  return text;
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
  app.formatter(std::make_shared<PlainHelp>());
  app.set_help_flag("-h,--help", "shows this, and ends");
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
  if (!command.empty() && dashes != end) {
    return complain(app, "unexpected '" + command.front() + "' before `--`; " + help_of(app));
  }
  if (dashes != end) {
    command.assign(dashes + 1, end);
  }
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

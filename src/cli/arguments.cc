// Reads command lines with CLI11. Cold.
#include "src/cli/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "src/cli/command.h"

namespace memo::cli {
namespace {

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

}  // namespace

int complain(const CLI::App& app, const std::string& what) {
  std::fprintf(stderr, "memomalloc %s: %s\n", app.get_name().c_str(), what.c_str());
  return kBadInput;
}

int refuse(const std::string& reason, std::string_view advice) {
  std::fprintf(stderr, "%s; %.*s\n", reason.c_str(), static_cast<int>(advice.size()),
               advice.data());
  return kBadInput;
}

CLI::Validator bytes() {
  const auto convert = [](std::string& text) {
    std::string complaint = "'" + text + "' is not a number of bytes (units: K, M, G)";
    try {  // CLI11's own message lists thirty units
      const bool good = !text.starts_with('-') && CLI::AsSizeValue(false)(text).empty();
      return good ? "" : complaint;
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

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  app.name(argv[0]);
  for (CLI::Option* option : app.get_options()) {
    if (option->get_expected_max() == 1 && !option->get_positional()) {
      option->multi_option_policy(
          CLI::MultiOptionPolicy::TakeLast);  // so that an alias may set one
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success&) {
    std::fputs(help(app).c_str(), stdout);
    return kDone;
  } catch (const CLI::ParseError& error) {
    return complain(
        app, std::string(error.what()) + "; `memomalloc " + argv[0] + " --help` tells the options");
  }
  return std::nullopt;
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
    return complain(app, "there is no option '" + command.front() + "'; `memomalloc " + argv[0] +
                             " --help` tells the options");
  }
  if (!command.empty() && dashes != end) {
    return complain(app, "unexpected '" + command.front() + "' before `--`; `memomalloc " +
                             argv[0] + " --help` tells the options");
  }
  if (dashes != end) {
    command.assign(dashes + 1, end);
  }
  if (command.empty()) {
    return complain(app, "which command? Put it after `--`: memomalloc " + std::string(argv[0]) +
                             " -- python infer.py");
  }
  if (command.front().starts_with('-')) {
    return complain(app, "there is no option '" + command.front() + "'; `memomalloc " + argv[0] +
                             " --help` tells the options");
  }
  return std::nullopt;
}

}  // namespace memo::cli

// Whole files in and out. Cold.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace memo::cli {

// The file's text ("-" is standard input); none, with `error` set to "path:0: reason", if it cannot
// be read.
std::optional<std::string> read_text(const std::string& path, std::string& error);

// "" if a file of this path can be made or replaced, else "path: reason" and what to do. To be
// asked before work whose result would be lost.
std::string unwritable(const std::string& path);

// The same for all outputs of a command, empty names left out; and none may be an input or another
// output, which it would overwrite.
std::string unwritable(const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs);

// Writes the file whole or not at all: to a neighbour first, which then takes its name ("-" is
// standard output). False, with `error` set, if that fails.
bool write_text(const std::string& path, const std::string& text, std::string& error);

}  // namespace memo::cli

// The files of src/cli/report/, compiled into the command. Cold.
#pragma once

#include <string>
#include <string_view>

namespace memo::cli {

// The contents of a file by its name in that folder; empty if there is none of that name.
std::string_view asset(std::string_view name);

// Text as a page shows it, whatever is in it.
std::string escaped(const std::string& text);

// A page up to its body, with the style in the file of that name.
std::string html_head(const std::string& title, std::string_view style);

}  // namespace memo::cli

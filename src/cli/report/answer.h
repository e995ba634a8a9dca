// What a command says first. Cold.
#pragma once

#include <string>

namespace memo::cli {

// Sentences in plain text; a command stands between `. Empty where there is nothing to say.
struct Answer {
  std::string what;  // what was served or won
  std::string next;  // what to do next
};

}  // namespace memo::cli

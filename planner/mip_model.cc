// Builds the program and writes it in two formats. Cold.
#include "planner/mip_model.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace dsa {
namespace {

bool conflict(const Model& model, const Item& a, const Item& b) {
  for (const Span& x : model.parts_of(a)) {
    for (const Span& y : model.parts_of(b)) {
      if (x.lower < y.upper && y.lower < x.upper) {
        return true;
      }
    }
  }
  return false;
}

std::string name(const char* prefix, std::size_t index) {
  return std::string(prefix).append(std::to_string(index));
}

std::string number(double value) {
  std::array<char, 32> text;
  const int length = std::snprintf(text.data(), text.size(), "%.12g", value);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

MipModel::MipModel(const Model& model, Bytes known) {
  Bytes grain = 0;
  for (const Item& item : model.items) {
    grain = std::gcd(grain, item.size);
    grain = item.alignment > 1 ? std::gcd(grain, item.alignment) : grain;
    grain = item.fixed != kNotFixed ? std::gcd(grain, item.fixed) : grain;
  }
  unit = grain > 0 ? static_cast<double>(grain) : 1;
  const double most = static_cast<double>(known) / unit;
  columns.push_back({"height", static_cast<double>(model.bound) / unit, most});
  const auto size_of = [&](std::size_t i) {
    return static_cast<double>(model.items[i].size) / unit;
  };
  const auto offset_of = [](std::size_t i) { return static_cast<int>(i) + 1; };
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    const Item& item = model.items[i];
    const bool fixed = item.fixed != kNotFixed;
    const double at = static_cast<double>(item.fixed) / unit;
    columns.push_back({name("o", i), fixed ? at : 0, fixed ? at : most - size_of(i)});
    rows.push_back({{{0, 1}, {offset_of(i), -1}}, size_of(i)});
  }
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    const double alignment = static_cast<double>(model.items[i].alignment) / unit;
    if (alignment > 1) {
      columns.push_back({name("a", i), 0, most / alignment, true});
      rows.push_back(
          {{{offset_of(i), 1}, {static_cast<int>(columns.size()) - 1, -alignment}}, 0, true});
    }
    for (std::size_t j = i + 1; j < model.items.size(); ++j) {
      if (!conflict(model, model.items[i], model.items[j])) {
        continue;
      }
      columns.push_back({name("z", columns.size()), 0, 1, true});
      const int z = static_cast<int>(columns.size()) - 1;
      rows.push_back({{{offset_of(j), 1}, {offset_of(i), -1}, {z, most}}, size_of(i)});
      rows.push_back({{{offset_of(i), 1}, {offset_of(j), -1}, {z, -most}}, size_of(j) - most});
    }
  }
}

std::string format_lp(const MipModel& mip) {
  std::string out = "\\ sizes and offsets in units of " + number(mip.unit) + " bytes\n";
  out += "Minimize\n obj: height\nSubject To\n";
  for (std::size_t r = 0; r < mip.rows.size(); ++r) {
    out += name(" r", r) + ":";
    for (const MipModel::Term& term : mip.rows[r].terms) {
      out += term.factor < 0 ? " - " : " + ";
      out += number(std::abs(term.factor)) + " ";
      out += mip.columns[static_cast<std::size_t>(term.column)].name;
    }
    out += mip.rows[r].equal ? " = " : " >= ";
    out += number(mip.rows[r].at_least) + "\n";
  }
  out += "Bounds\n";
  std::string integers;
  for (const MipModel::Column& column : mip.columns) {
    out.append(" ").append(number(column.lower)).append(" <= ").append(column.name);
    out.append(" <= ").append(number(column.upper)).append("\n");
    if (column.integer) {
      integers.append(" ").append(column.name).append("\n");
    }
  }
  return out + "Generals\n" + integers + "End\n";
}

std::string format_mps(const MipModel& mip) {
  // Fixed columns, which every reader understands.
  const auto line = [](const char* kind, const std::string& first, const std::string& second,
                       const std::string& value) {
    std::array<char, 96> text;
    const int length = std::snprintf(text.data(), text.size(), " %-2s %-8s  %-8s  %12s\n", kind,
                                     first.c_str(), second.c_str(), value.c_str());
    return std::string(text.data(), static_cast<std::size_t>(length));
  };
  std::string out = "NAME          PLACE\nROWS\n N  obj\n";
  std::vector<std::string> entries(mip.columns.size());
  entries[0] = line("", "height", "obj", "1");
  std::string right;
  for (std::size_t r = 0; r < mip.rows.size(); ++r) {
    const std::string row = name("r", r);
    out.append(mip.rows[r].equal ? " E  " : " G  ").append(row).append("\n");
    for (const MipModel::Term& term : mip.rows[r].terms) {
      const auto column = static_cast<std::size_t>(term.column);
      entries[column] += line("", mip.columns[column].name, row, number(term.factor));
    }
    right += line("", "rhs", row, number(mip.rows[r].at_least));
  }
  out += "COLUMNS\n";
  bool integers = false;
  for (std::size_t c = 0; c < mip.columns.size(); ++c) {
    if (mip.columns[c].integer != integers) {
      integers = !integers;
      out.append("    MARKER                 'MARKER'                 ");
      out.append(integers ? "'INTORG'\n" : "'INTEND'\n");
    }
    out += entries[c];
  }
  if (integers) {
    out += "    MARKER                 'MARKER'                 'INTEND'\n";
  }
  out.append("RHS\n").append(right).append("BOUNDS\n");
  for (const MipModel::Column& column : mip.columns) {
    out += line("LO", "bound", column.name, number(column.lower));
    out += line("UP", "bound", column.name, number(column.upper));
  }
  return out + "ENDATA\n";
}

}  // namespace dsa

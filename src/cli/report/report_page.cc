// The page: src/cli/report/* with the data in it. Cold.
#include "src/cli/report/report_page.h"

#include <zlib.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "src/cli/base/json_text.h"
#include "src/cli/report/report_assets.h"

namespace memo::cli {
namespace {

using nlohmann::json;

constexpr const char* kOpNames[] = {
#define OP(name) #name,
#include "src/trace/ops.def"
#undef OP
};

// Columns instead of an object for each block: a fraction of the size.
json columns(const std::vector<MapBlock>& blocks, std::map<std::uint64_t, std::size_t>& sites) {
  json data = {{"lower", json::array()}, {"upper", json::array()}, {"gapFrom", json::array()},
               {"gapTo", json::array()}, {"size", json::array()},  {"offset", json::array()},
               {"glibc", json::array()}, {"site", json::array()},  {"op", json::array()}};
  for (const MapBlock& block : blocks) {
    data["lower"].push_back(block.lower);
    data["upper"].push_back(block.upper);
    data["gapFrom"].push_back(block.gap ? block.gap->lower : -1);
    data["gapTo"].push_back(block.gap ? block.gap->upper : -1);
    data["size"].push_back(block.size);
    data["offset"].push_back(block.offset);
    data["glibc"].push_back(block.elsewhere ? json(*block.elsewhere) : json());
    data["site"].push_back(sites.try_emplace(block.site, sites.size()).first->second);
    data["op"].push_back(static_cast<int>(block.op));
  }
  return data;
}

json thread_json(const ThreadMap& map, std::map<std::uint64_t, std::size_t>& sites) {
  json period;
  if (map.period) {
    period = {{"first", map.period->first},
              {"length", map.period->length},
              {"unroll", map.period->unroll},
              {"changing", map.changing}};
  }
  return {{"thread", map.thread},
          {"allocations", map.allocations},
          {"bytes", map.bytes},
          {"period", period},
          {"steps", map.steps},
          {"ranked", map.ranked},
          {"lowerBound", map.lower_bound},
          {"height", map.height},
          {"unplanned", map.unplanned},
          {"glibcBytes", map.glibc_bytes},
          {"live", map.live},
          {"blocks", columns(map.blocks, sites)}};
}

// What each counter means, in the order of their table, where one explains the next.
json meanings() {
  json rows = json::array();
#define COUNTER(name, unit, help) rows.push_back({#name, help});
#include "src/base/counters.def"
#undef COUNTER
  return rows;
}

json page_data(const Report& report) {
  std::map<std::uint64_t, std::size_t> sites;
  json threads = json::array();
  for (const ThreadMap& map : report.maps) {
    threads.push_back(thread_json(map, sites));
  }
  std::vector<std::string> names(sites.size());
  for (const auto& [site, index] : sites) {
    names[index] = report.site_name(site);
  }
  json ops = json::array();
  for (const char* name : kOpNames) {
    ops.push_back(report.source == Report::Source::kProblem ? "buffer" : name);
  }
  return {{"title", report.title},
          {"threads", threads},
          {"buffers", report.source == Report::Source::kProblem},
          {"sites", names},
          {"ops", ops},
          {"meanings", meanings()},
          {"stream", report.source == Report::Source::kSnapshot ? "device" : "thread"},
          {"statistics", report.statistics}};
}

std::string gzipped(const std::string& text) {
  z_stream stream{};
  constexpr int kGzipHeader = 15 + 16;
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipHeader, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::bad_alloc();
  }
  std::string result(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

std::string base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8U | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return text;
}

// JSON inside <script> must not contain an end tag, nor the begin of a comment, after which an end
// tag may be none.
std::string script_safe(const json& value) {
  std::string text;
  for (const char c : json_text(value)) {
    text += c == '<' ? "\\u003c" : std::string(1, c);
  }
  return text;
}

// What stands between ` is a command.
std::string marked_up(const std::string& text) {
  std::string page = escaped(text);
  bool open = false;
  for (std::size_t at = 0; (at = page.find('`', at)) != std::string::npos; open = !open) {
    page.replace(at, 1, open ? "</code>" : "<code>");
  }
  return page;
}

void replace(std::string& page, const std::string& mark, const std::string& text) {
  page.replace(page.find(mark), mark.size(), text);
}

}  // namespace

std::string report_html(const Report& report) {
  const Answer answer = answer_of(report);
  std::string page(asset("page.html"));
  std::string script;
  for (const char* part : {"format.js", "heap_map.js", "chart.js", "tables.js", "main.js"}) {
    script += asset(part);
  }
  // From the bottom up, and the head last: names that are put in may look like marks, and lie
  // behind those that are still to be replaced.
  replace(page, "@script@", script);
  replace(page, "@viz@", base64(gzipped(memory_viz_pickle(report.maps, report.site_name))));
  replace(page, "@chrome@", base64(gzipped(chrome_trace(report.maps, report.site_name))));
  replace(page, "@data@", script_safe(page_data(report)));
  std::string notes;
  for (const std::string& note : report.notes) {
    notes += "\n    <p class=\"hint\">" + escaped(note) + "</p>";
  }
  replace(page, "@notes@", notes);
  replace(page, "@next@", marked_up(answer.next));
  replace(page, "@answer@", marked_up(answer.what));
  return html_head(report.title + " - MemoMalloc report", "style.css") + page;
}

}  // namespace memo::cli

// The assembler includes the files as they are, so that they stay ordinary HTML, CSS and
// JavaScript. Cold.
#include "src/cli/report/report_assets.h"

#define ASSETS(row)                                                                     \
  row(head, "head.html") row(page, "page.html") row(comparison_style, "comparison.css") \
      row(style, "style.css") row(format, "format.js") row(heap_map, "heap_map.js")     \
          row(chart, "chart.js") row(tables, "tables.js") row(main_script, "main.js")

#define EMBED(symbol, file)                                                          \
  asm(".pushsection .rodata\n"                                                       \
      "memo_asset_" #symbol ": .incbin \"src/cli/report/page/" file                  \
      "\"\n"                                                                         \
      "memo_asset_" #symbol                                                          \
      "_end: .byte 0\n"                                                              \
      ".popsection\n");                                                              \
  extern "C" const char memo_asset_##symbol[] __attribute__((visibility("hidden"))); \
  extern "C" const char memo_asset_##symbol##_end[] __attribute__((visibility("hidden")));
ASSETS(EMBED)
#undef EMBED

namespace memo::cli {

std::string_view asset(std::string_view name) {
#define FIND(symbol, file)                                                              \
  if (name == file) {                                                                   \
    return {memo_asset_##symbol,                                                        \
            static_cast<std::size_t>(memo_asset_##symbol##_end - memo_asset_##symbol)}; \
  }
  ASSETS(FIND)
#undef FIND
  return {};
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string html_head(const std::string& title, std::string_view style) {
  std::string head(asset("head.html"));
  const auto put = [&head](std::string_view mark, std::string_view text) {
    head.replace(head.find(mark), mark.size(), text);
  };
  put("@style@", asset(style));  // first: the title may be anything
  put("@title@", escaped(title));
  return head;
}

}  // namespace memo::cli

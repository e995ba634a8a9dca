// The assembler includes the files as they are, so that they stay ordinary HTML, CSS and
// JavaScript. Cold.
#include "src/cli/report_assets.h"

#define ASSETS(row)                                                                \
  row(page, "page.html") row(style, "style.css") row(format, "format.js")          \
      row(heap_map, "heap_map.js") row(chart, "chart.js") row(tables, "tables.js") \
          row(main_script, "main.js")

#define EMBED(symbol, file)                                                          \
  asm(".pushsection .rodata\n"                                                       \
      "memo_asset_" #symbol ": .incbin \"src/cli/report/" file                       \
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

}  // namespace memo::cli

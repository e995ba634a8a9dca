// Tables and tiles.
function fillTable(table, headings, rows, onRow) {
  table.replaceChildren();
  const head = element("tr", "", element("thead", "", table));
  for (const heading of headings) element("th", heading, head);
  const body = element("tbody", "", table);
  for (const row of rows) {
    const line = element("tr", "", body);
    row.cells.forEach((cell, i) => { element("td", cell, line).dataset.label = headings[i]; });
    onRow?.(row, line);
  }
}

function fillTiles(tiles) {
  byId("tiles").replaceChildren();
  for (const [label, value, title] of tiles) {
    const tile = element("div", "", byId("tiles"));
    element("b", value, tile);
    element("span", label, tile);
    tile.title = title || "";
  }
}

// The sites of an iteration's blocks, those with the most bytes first. `once`: the blocks of a site are the
// parts of one block's life.
function topSites(blocks, names, most, once) {
  const sites = new Map();
  for (const block of blocks) {
    const sum = sites.get(block.site) || {site: block.site, blocks: 0, bytes: 0, steps: 0, largest: 0};
    sum.blocks = once ? 1 : sum.blocks + 1;
    sum.bytes = once ? block.size : sum.bytes + block.size;
    sum.steps += block.steps;
    sum.largest = Math.max(sum.largest, block.size);
    sites.set(block.site, sum);
  }
  const all = [...sites.values()].sort((a, b) => b.bytes - a.bytes);
  const total = all.reduce((sum, site) => sum + site.bytes, 0);
  return all.slice(0, most).map((site) => ({
    site: site.site,
    cells: [names[site.site], count(site.blocks), bytes(site.bytes), percent(site.bytes, total),
            bytes(site.largest), (site.steps / site.blocks).toFixed(1)],
  }));
}

// `meanings`: of each counter, in the order in which they explain each other.
function fillStatistics(statistics, meanings) {
  byId("statistics").hidden = !statistics;
  if (!statistics) return;
  const large = statistics.large_bytes;
  const shares = [["planned in a slab", "planned", "the place that a plan has laid out"],
                  ["reused from the pool", "at_hand", "memory that the pool held already: no page fault follows"],
                  ["other", "other", "the pool had to grow, or the underlying allocator gave the memory"]];
  fillTable(byId("shares"), ["all large allocations of all threads", "allocations", "bytes", "share of bytes", "meaning"],
    "other_bytes" in statistics ? shares.map(([label, name, meaning]) => ({cells: [label,
      count(statistics[`${name}_allocations`]), bytes(statistics[`${name}_bytes`]),
      percent(statistics[`${name}_bytes`], large), meaning]})) : []);
  const fallback = Object.entries(statistics.fallback || {}).filter(([, calls]) => calls > 0)
    .sort((a, b) => b[1] - a[1]);
  fillTable(byId("fallbacks"), ["not planned, or not reused, because", "allocations", "share", "meaning"],
    fallback.length ? fallback.map(([reason, calls]) => ({cells: [reason, count(calls),
      percent(calls, statistics.large_allocations), meanings.get(`fallback_${reason}`) || ""]}))
                    : [{cells: ["no fallbacks", "0", "-", ""]}]);
  const flat = Object.entries(statistics).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && name !== "fallback"
      ? Object.entries(value).map(([inner, number]) => [`${name}.${inner}`, number])
      : typeof value === "object" || name.startsWith("fallback_") ? [] : [[name, value]]);
  const order = [...meanings.keys()];
  flat.sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  fillTable(byId("counters"), ["statistic", "value", "meaning"], flat.map(([name, value]) => ({
    cells: [name, typeof value !== "number" || name === "pid" ? String(value)
                  : /bytes/.test(name) ? `${bytes(value)} (${count(value)})` : value.toLocaleString("en", {maximumFractionDigits: 6}),
            meanings.get(name) || ""],
  })));
}

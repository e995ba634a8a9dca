// The page: reads the data, shows one thread, and keeps maps and chart at the same section of time.
const data = JSON.parse(byId("data").textContent);
let maps = [], current = null, marked = null;

function blocksOf(thread) {
  const c = thread.blocks;
  return c.size.map((size, i) => {
    const wraps = c.gapFrom[i] >= 0;
    return {
      index: i, size, offset: c.offset[i], glibc: c.glibc[i], site: c.site[i], op: c.op[i],
      lower: c.lower[i], upper: c.upper[i], gapFrom: c.gapFrom[i], gapTo: c.gapTo[i], wraps,
      steps: c.upper[i] - c.lower[i] - (wraps ? c.gapTo[i] - c.gapFrom[i] : 0),
    };
  });
}

function describe(block) {
  const life = block.wraps ? `from step ${block.gapTo} round to step ${block.gapFrom}`
                           : `steps ${block.lower} to ${block.upper}`;
  return `${bytes(block.size)} (${count(block.size)} B), ${data.ops[block.op]}\n` +
    `${data.sites[block.site]}\nalive ${block.steps} steps, ${life}\noffset ${count(block.offset)}`;
}

const shared = {
  time: {x0: 0, x1: 1},
  showTime(x0, x1) {
    const width = Math.min(current.thread.steps, Math.max(2, x1 - x0));
    const from = Math.min(Math.max(0, x0), current.thread.steps - width);
    this.time = {x0: from, x1: from + width};
    this.hover(null);
    schedule();
  },
  hover(block, event) {
    const tip = byId("tip");
    tip.style.display = block ? "block" : "none";
    if (!block) return;
    tip.textContent = describe(block);
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8)}px`;
  },
  keep(block) { byId("kept").textContent = block ? describe(block).replaceAll("\n", "; ") : ""; },
};

function shownPart(thread) {
  if (data.buffers) return "all buffers";
  if (!thread.period) return "the whole stream";
  return thread.period.changing ? "the largest iteration"
    : thread.period.unroll > 1 ? `${thread.period.unroll} iterations` : "one iteration";
}

let scheduled = false;
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => { scheduled = false; draw(); });
}

function colours() {
  const kind = byId("colour").value;
  byId("legend").textContent = "";
  if (kind === "site") return (block) => siteColour(block.site);
  const value = kind === "size" ? (block) => Math.log2(block.size) : (block) => Math.log2(1 + block.steps);
  let least = Infinity, most = -Infinity;
  for (const block of current.blocks) {
    least = Math.min(least, value(block));
    most = Math.max(most, value(block));
  }
  const show = kind === "size" ? (power) => bytes(Math.round(2 ** power)) : (power) => `${Math.round(2 ** power - 1)} steps`;
  byId("legend").textContent = `blue: ${show(least)}, red: ${show(most)}`;
  return (block) => scaleColour(most > least ? (value(block) - least) / (most - least) : 0);
}

function draw() {
  if (!current) return;
  const {thread, live} = current, {x0, x1} = shared.time, colourOf = colours();
  for (const map of maps) map.draw(colourOf, marked);
  drawCurve(byId("live"), live, x0, x1, [
    {value: thread.lowerBound, text: `lower bound ${bytes(thread.lowerBound)}`, colour: "--bound", dashed: true},
    {value: thread.height, text: `plan ${bytes(thread.height)}`, colour: "--ink"},
  ], (step) => `step ${Math.round(step)}`);
  const peak = Math.max(...thread.live);
  drawCurve(byId("run"), thread.live, 0, thread.live.length, [
    {value: peak, text: `peak ${bytes(peak)}`, colour: "--soft", dashed: true},
    {value: thread.height, text: `plan of ${shownPart(thread)} ${bytes(thread.height)}`, colour: "--ink"},
  ], (part) => `${Math.round(100 * part / thread.live.length)} %`);
}

function showSites() {
  fillTable(byId("sites"), [data.buffers ? "buffer" : "call", "blocks", "bytes", "share", "largest", "mean lifetime in steps"],
    topSites(current.blocks, data.sites, 25, data.buffers), (row, line) => {
      const swatch = element("span", "");
      swatch.className = "swatch";
      swatch.style.background = siteColour(row.site);
      const name = element("div", "", null);
      name.className = "name";
      name.append(swatch, ...line.firstChild.childNodes);
      line.firstChild.append(name);
      line.classList.toggle("marked", row.site === marked);
      line.onclick = () => { marked = marked === row.site ? null : row.site; showSites(); schedule(); };
    });
}

function showThread(thread) {
  const blocks = blocksOf(thread);
  current = {thread, blocks, live: liveBytes(blocks, thread.steps)};
  marked = null;
  maps.forEach((map) => map.dispose());
  const make = (id, place, height) =>
    new HeapMap(byId(id), rectangles(blocks, place), {x: thread.steps, y: Math.max(1, height)}, shared);
  // Both maps have the same scale at first: the taller one shows what the other saves.
  const height = Math.max(thread.height, thread.glibcBytes);
  const hasGlibc = thread.glibcBytes > 0;
  byId("glibc-figure").hidden = !hasGlibc;
  maps = [make("planned", (block) => block.offset, height)];
  if (hasGlibc) maps.push(make("glibc", (block) => block.glibc, height));
  byId("planned-height").textContent = bytes(thread.height);
  byId("glibc-height").textContent = bytes(thread.glibcBytes);
  const period = thread.period;
  const what = data.buffers ? "a planner's problem, with the offsets that it has or got" +
      (thread.ranked ? "; its times lie far apart, so a step is from one begin or end of a buffer to the next" : "") : !period ? `nothing repeats in this ${data.stream}, so its whole stream is shown`
    : `the iteration has ${count(period.length)} allocations` +
      (period.changing ? ", whose sizes follow from the first one's and change; the largest one learned is shown" : "") +
      (period.unroll > 1 ? `; ${period.unroll} iterations are shown` : "");
  const shown = data.buffers ? thread.allocations : blocks.length, word = data.buffers ? "buffer" : "block";
  byId("map-caption").textContent = `${count(shown)} ${word}${shown === 1 ? "" : "s"}; ${what}`;
  const unnamed = data.sites.some((name) => /^[0-9a-f]{16}$/.test(name));
  byId("sites-caption").textContent = `of ${shownPart(thread)}; a row marks its blocks in the ${hasGlibc ? "maps" : "map"}` +
    (data.buffers ? "" : unnamed ? "; a number is a call whose name the trace did not bring" : "; inner call < outer call");
  byId("whole-run").hidden = !period;  // else the chart above shows it
  fillTiles([
    ["plan height", bytes(thread.height)],
    ["lower bound", bytes(thread.lowerBound), "greatest sum of bytes alive at one time"],
    ["above the bound", percent(thread.height - thread.lowerBound, thread.lowerBound)],
    ...(hasGlibc ? [["glibc's layout", bytes(thread.glibcBytes), "addresses used for the same blocks"]] : []),
    ["without reuse", bytes(data.buffers ? thread.bytes : blocks.reduce((sum, block) => sum + block.size, 0)),
     data.buffers ? "sum of the buffers' sizes" : "sum of the blocks' sizes"],
    ...(period ? [["freed in the next iteration", count(blocks.filter((block) => block.wraps).length), "wrapping blocks"],
                  ["left out of the plan", count(thread.unplanned), "blocks that outlive their iteration"]] : []),
    [data.buffers ? "buffers" : "large allocations", count(thread.allocations), data.buffers ? "" : "in the whole trace"],
  ]);
  showSites();
  shared.keep(null);
  shared.showTime(0, thread.steps);
}

function start() {
  byId("title").textContent = data.title;
  fillStatistics(data.statistics, new Map(data.meanings));
  byId("stream").textContent = data.stream;
  byId("run-caption").textContent = `greatest live bytes, all large blocks of the ${data.stream}`;
  if (data.buffers) {
    byId("steps").textContent = "steps";
    byId("by-site").textContent = "buffer";
    byId("sites-heading").textContent = "Largest buffers";
  }
  byId("maps").hidden = data.threads.length === 0;
  byId("tiles").hidden = data.threads.length === 0;
  document.querySelector(".tools").hidden = data.threads.length === 0;
  byId("exports").hidden = data.buffers;
  data.threads.forEach((thread, i) => {
    element("option", `${thread.thread} (${bytes(thread.bytes)})`, byId("thread")).value = i;
  });
  byId("thread-label").hidden = data.threads.length < 2;
  byId("thread").onchange = (event) => showThread(data.threads[event.target.value]);
  byId("colour").onchange = schedule;
  byId("save-chrome").onclick = () => save("chrome-data", "memomalloc-trace.json", "application/json");
  byId("save-viz").onclick = () => save("viz-data", "memomalloc-memory.pickle", "application/octet-stream");
  window.addEventListener("resize", schedule);
  if (data.threads.length > 0) showThread(data.threads[0]);
}
start();

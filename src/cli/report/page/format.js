// Numbers, colours and elements.
const byId = (id) => document.getElementById(id);

function bytes(value) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (value >= size) return `${(value / size).toFixed(value >= 100 * size ? 0 : 2)} ${unit}`;
  }
  return `${value} B`;
}

const percent = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : "-";
const count = (value) => value.toLocaleString("en");
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The golden angle keeps the hues of neighbouring numbers far apart.
const siteColour = (site) => `hsl(${(site * 137.508) % 360} 55% ${48 + site % 3 * 8}%)`;
const scaleColour = (share) => `hsl(${240 - 240 * share} 65% 50%)`;

function element(tag, text, parent) {
  const made = document.createElement(tag);
  made.textContent = text;
  parent?.append(made);
  return made;
}

// Gives a canvas the resolution of the screen; returns its context, scaled to CSS pixels.
function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const {width, height} = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return {context, width, height};
}

// Text on a plate of the page's colour, so that it can be read on any block.
function drawLabel(context, text, x, y) {
  context.fillStyle = style("--paper");
  context.fillRect(x - 3, y - 12, context.measureText(text).width + 6, 16);
  context.fillStyle = style("--ink");
  context.fillText(text, x, y);
}

async function save(id, name, type) {
  const packed = Uint8Array.from(atob(byId(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const url = URL.createObjectURL(new Blob([await new Response(stream).arrayBuffer()], {type}));
  const link = element("a", "");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

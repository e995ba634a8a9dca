// Curves of bytes.

// The bytes alive at each step of an iteration.
function liveBytes(blocks, steps) {
  const live = new Float64Array(steps + 1);
  const add = (from, to, size) => { live[from] += size; live[to] -= size; };
  for (const block of blocks) {
    if (block.gapFrom < 0) {
      add(block.lower, block.upper, block.size);
    } else {
      add(block.lower, block.gapFrom, block.size);
      add(block.gapTo, block.upper, block.size);
    }
  }
  for (let i = 1; i <= steps; ++i) live[i] += live[i - 1];
  return live.subarray(0, steps);
}

// Draws `values` over [from, to) of their indices, the greatest of each pixel, and `lines` of {value, text}.
function drawCurve(canvas, values, from, to, lines, label) {
  const {context, width, height} = prepare(canvas);
  const bottom = height - 18;
  let top = 1;
  for (const value of values) top = Math.max(top, value);
  for (const line of lines) top = Math.max(top, line.value);
  const y = (value) => bottom - value / (top * 1.18) * (bottom - 4);
  context.beginPath();
  context.moveTo(0, bottom);
  for (let x = 0; x < width; ++x) {
    const first = Math.floor(from + x / width * (to - from));
    const last = Math.max(first + 1, Math.floor(from + (x + 1) / width * (to - from)));
    let most = 0;
    for (let i = Math.max(0, first); i < last && i < values.length; ++i) most = Math.max(most, values[i]);
    context.lineTo(x, y(most));
    context.lineTo(x + 1, y(most));
  }
  context.lineTo(width, bottom);
  context.fillStyle = style("--accent");
  context.globalAlpha = 0.55;
  context.fill();
  context.globalAlpha = 1;
  const above = y(Math.max(...lines.map((line) => line.value))) - 5;  // labels beside each other, above all lines
  let left = 6;
  for (const line of lines) {
    context.strokeStyle = context.fillStyle = style(line.colour);
    context.setLineDash(line.dashed ? [6, 4] : []);
    context.beginPath();
    context.moveTo(0, y(line.value));
    context.lineTo(width, y(line.value));
    context.stroke();
    const text = (line.dashed ? "- - " : "") + line.text;
    context.fillText(text, left, above);
    left += context.measureText(text).width + 16;
  }
  context.fillStyle = style("--soft");
  context.fillText(label(Math.max(0, from)), 4, height - 4);
  const end = label(to);
  context.fillText(end, width - context.measureText(end).width - 4, height - 4);
}

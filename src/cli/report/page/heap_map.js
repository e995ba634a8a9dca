// Blocks as rectangles of time and address. The drawing has levels of detail: of the rectangles thinner than
// a pixel only those are drawn that reach a pixel which no larger one has, so that the time to draw depends
// on the canvas more than on the number of blocks.
class HeapMap {
  // `rects`: {block, x0, x1, y0, y1}, the largest area first; `extent`: the greatest x and y.
  constructor(canvas, rects, extent, shared) {
    Object.assign(this, {canvas, rects, extent, shared});
    this.y0 = 0;
    this.y1 = extent.y || 1;
    this.abort = new AbortController();
    const listen = (type, handler) =>
      canvas.addEventListener(type, handler, {signal: this.abort.signal, passive: false});
    listen("wheel", (event) => this.zoom(event));
    listen("pointerdown", (event) => { this.drag = event; this.moved = false; canvas.setPointerCapture(event.pointerId); });
    listen("pointerup", (event) => this.release(event));
    listen("pointercancel", () => { this.drag = null; });  // the finger scrolls the page
    listen("pointermove", (event) => this.move(event));
    listen("pointerleave", () => shared.hover(null));
    listen("dblclick", () => { this.y0 = 0; this.y1 = this.extent.y || 1; shared.showTime(0, extent.x); });
  }

  dispose() { this.abort.abort(); }

  position(event) {
    const box = this.canvas.getBoundingClientRect();
    const {x0, x1} = this.shared.time;
    return {
      x: x0 + (event.clientX - box.left) / box.width * (x1 - x0),
      y: this.y1 - (event.clientY - box.top) / box.height * (this.y1 - this.y0),
    };
  }

  zoom(event) {
    event.preventDefault();
    const at = this.position(event);
    const factor = Math.exp((event.deltaY || event.deltaX) * 0.0015);
    if (!event.shiftKey) {
      const height = Math.min(this.extent.y, Math.max(4096, (this.y1 - this.y0) * factor));
      const share = (at.y - this.y0) / (this.y1 - this.y0);
      this.y0 = Math.min(Math.max(0, at.y - share * height), this.extent.y - height);
      this.y1 = this.y0 + height;
    }
    const {x0, x1} = this.shared.time;
    this.shared.showTime(at.x - (at.x - x0) * factor, at.x + (x1 - at.x) * factor);
  }

  move(event) {
    if (!this.drag) {
      this.shared.hover(this.find(this.position(event)), event);
      return;
    }
    const box = this.canvas.getBoundingClientRect();
    const {x0, x1} = this.shared.time;
    const dx = -(event.clientX - this.drag.clientX) / box.width * (x1 - x0);
    const dy = (event.clientY - this.drag.clientY) / box.height * (this.y1 - this.y0);
    const shift = Math.min(Math.max(dy, -this.y0), this.extent.y - this.y1);
    this.y0 += shift;
    this.y1 += shift;
    this.moved ||= Math.abs(event.clientX - this.drag.clientX) + Math.abs(event.clientY - this.drag.clientY) > 3;
    if (this.moved) {
      this.drag = event;
      this.shared.showTime(x0 + dx, x1 + dx);
    }
  }

  release(event) {
    this.drag = null;
    if (!this.moved) this.shared.keep(this.find(this.position(event)));
  }

  // The smallest rectangle at a place, so that a block drawn over another one is found.
  find({x, y}) {
    for (let i = this.rects.length - 1; i >= 0; --i) {
      const rect = this.rects[i];
      if (rect.x0 <= x && x < rect.x1 && rect.y0 <= y && y < rect.y1) return rect.block;
    }
    return null;
  }

  draw(colourOf, marked) {
    const {context, width, height} = prepare(this.canvas);
    const {x0, x1} = this.shared.time;
    const sx = width / (x1 - x0), sy = height / (this.y1 - this.y0);
    const columns = Math.ceil(width);
    const seen = new Uint8Array(columns * Math.ceil(height));
    this.drawn = 0;
    for (const rect of this.rects) {
      if (rect.x1 <= x0 || rect.x0 >= x1 || rect.y1 <= this.y0 || rect.y0 >= this.y1) continue;
      const left = (rect.x0 - x0) * sx, top = (this.y1 - rect.y1) * sy;
      const w = (rect.x1 - rect.x0) * sx, h = (rect.y1 - rect.y0) * sy;
      if ((w < 1 || h < 1) && !covers(seen, columns, left, top, w, h)) continue;
      ++this.drawn;
      context.globalAlpha = marked === null || marked === rect.block.site ? 1 : 0.15;
      context.fillStyle = colourOf(rect.block);
      context.fillRect(left, top, Math.max(w - (w > 4 ? 0.5 : 0), 0.7), Math.max(h - (h > 4 ? 0.5 : 0), 0.7));
    }
    context.globalAlpha = 1;
    for (const [value, y] of [[this.y1, 14], [Math.max(0, this.y0), height - 5]]) {
      drawLabel(context, bytes(Math.round(value)), 4, y);
    }
  }
}

// Marks the pixels of a rectangle that is thinner than one; true if any of them was not marked before.
function covers(seen, columns, left, top, w, h) {
  const x = Math.max(0, Math.floor(left)), y = Math.max(0, Math.floor(top));
  const right = Math.min(columns - 1, Math.floor(left + w)), bottom = Math.floor(top + h);
  let isNew = false;
  for (let row = y; row <= bottom && row * columns < seen.length; ++row) {
    for (let column = x; column <= (w < 1 ? x : right); ++column) {
      isNew ||= seen[row * columns + column] === 0;
      seen[row * columns + column] = 1;
    }
    if (h < 1) break;
  }
  return isNew;
}

// The rectangles of a thread's blocks; those that wrap round have two. `place` tells a block's address.
function rectangles(blocks, place) {
  const rects = [];
  for (const block of blocks) {
    const y0 = place(block);
    if (y0 === null) continue;
    const y1 = y0 + block.size;
    const spans = block.gapFrom < 0 ? [[block.lower, block.upper]]
                                    : [[block.lower, block.gapFrom], [block.gapTo, block.upper]];
    for (const [x0, x1] of spans) rects.push({block, x0, x1, y0, y1});
  }
  const area = (rect) => (rect.x1 - rect.x0) * (rect.y1 - rect.y0);
  return rects.sort((a, b) => area(b) - area(a));
}

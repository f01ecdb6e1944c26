"use strict";
// Tables sort by a column; names in a legend show and hide their series; plots tell values beside
// the pointer and zoom along their x axis. All of it by keyboard as well.

const number = text => parseFloat(text.replace(/,/g, ""));

function sortBy(head) {
  const table = head.closest("table"), column = head.cellIndex, body = table.tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending", sign = up ? 1 : -1;
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const cells = [...body.rows].map(row => [row.cells[column].textContent.trim(), row]);
  const known = cells.filter(([text]) => !isNaN(number(text))).length * 2 > cells.length;
  cells.sort(([a], [b]) => {
    if (!known) return sign * a.localeCompare(b, "en", {numeric: true});
    const x = number(a), y = number(b);
    return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) : sign * (x - y);
  });
  body.append(...cells.map(([, row]) => row));
}

function toggle(label) {
  const series = label.id.replace(/legend-(\d+)$/, "series-$1-");
  const off = label.classList.toggle("off");
  label.setAttribute("aria-pressed", String(!off));
  for (const each of label.closest("svg").querySelectorAll(`[id^="${CSS.escape(series)}"]`))
    each.style.display = off ? "none" : "";
}

function clickable(each, act) {
  each.classList.add("clicks");
  each.tabIndex = 0;
  each.addEventListener("click", () => act(each));
  each.addEventListener("keydown", event => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(each); }
  });
}

for (const head of document.querySelectorAll("main table thead th")) clickable(head, sortBy);
for (const label of document.querySelectorAll("svg [id*='-legend-']"))
  if (/-legend-\d+$/.test(label.id)) {
    label.setAttribute("role", "button");
    label.setAttribute("aria-pressed", "true");
    clickable(label, toggle);
  }

// ---- Plots -------------------------------------------------------------------------------------

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("role", "status");
document.body.append(tip);

function drawn(parent, name, attributes) {
  const made = document.createElementNS(parent.namespaceURI, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  parent.append(made);
  return made;
}

const short = value => String(+value.toPrecision(4));

// A value as finely as a picture tells it: what is 0 there is 0.
function seen(value, scale) {
  const least = scale.log ? 0 : 10 ** Math.floor(Math.log10(Math.abs(scale.value(1) - scale.value(0)) / 2000));
  return short(least ? Math.round(value / least) * least : value);
}

// The axes of a plot: `from` and `to` are the part of their width that is shown, of 0 to 1.
class Axes {
  constructor(group) {
    this.group = group;
    this.svg = group.closest("svg");
    [this.left, this.top, this.width, this.height] = group.dataset.box.split(" ").map(Number);
    this.x = this.scale(group.dataset.x);
    this.y = this.scale(group.dataset.y);
    this.from = 0;
    this.to = 1;
    // Matplotlib's first axis is that of x.
    this.axis = group.querySelector("[id*='matplotlib.axis_']");
    this.ticks = [...this.axis.children].filter(each => each.id.includes("xtick_"));
    this.rows = group.querySelectorAll("[id*='ytick_']").length;
    this.cursor = drawn(group, "line", {class: "cursor", y1: this.top, y2: this.top + this.height});
    drawn(group, "rect", {class: "frame", x: this.left - 2, y: this.top - 2,
      width: this.width + 4, height: this.height + 4});
    this.at = [0.5, 0.5];
    group.tabIndex = 0;
    group.setAttribute("aria-label", `${group.dataset.title}: arrow keys read values` +
      (this.zooms ? ", + and - zoom, 0 shows all" : ""));
    group.addEventListener("keydown", event => this.key(event));
    group.addEventListener("focus", () => this.tell(...this.at));
    group.addEventListener("blur", hide);
  }

  // What its numbers along x are; of panels above each other the lowest alone says it.
  get name() {
    const same = this.svg.axes.filter(each => each.group.dataset.x === this.group.dataset.x);
    return same.map(each => each.group.dataset.name).find(each => each) || "";
  }

  get zooms() { return "zooms" in this.group.dataset; }

  // Return a function from parts of 0 to 1 to values, and one back.
  scale(text) {
    const [low, high, kind] = text.split(" "), log = kind === "log";
    const [a, b] = [low, high].map(each => log ? Math.log(each) : +each);
    const value = part => log ? Math.exp(a + part * (b - a)) : a + part * (b - a);
    return {log, value, part: of => ((log ? Math.log(of) : of) - a) / (b - a)};
  }

  // Parts of the width and the height, the latter from below, of a point of the screen.
  parts(event) {
    const point = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(this.svg.getScreenCTM().inverse());
    return [(point.x - this.left) / this.width, 1 - (point.y - this.top) / this.height];
  }

  // The values of all lines and layers there, and what bars say of themselves.
  found(x, y) {
    const whole = this.from + x * (this.to - this.from), px = this.left + whole * this.width;
    const said = [];
    for (const line of this.group.querySelectorAll("[data-values]")) {
      const points = line.querySelector("path").getAttribute("d").match(/-?[\d.]+/g).map(Number);
      const met = [];  // by a line once, by a layer of a stack above and below
      for (let each = 0; each + 3 < points.length; each += 2) {
        const [x0, y0, x1, y1] = points.slice(each, each + 4);
        if (px < Math.min(x0, x1) || px >= Math.max(x0, x1)) continue;
        const py = y0 + (y1 - y0) * (px - x0) / (x1 - x0);
        met.push(this.y.value(1 - (py - this.top) / this.height));
      }
      if (!met.length || line.style.display === "none") continue;
      said.push(`${line.dataset.told}: ${seen(met.length > 1 ? Math.abs(met[1] - met[0]) : met[0], this.y)}`);
    }
    if (said.length) said.unshift(`${this.name} ${short(this.x.value(whole))}`);
    const screen = new DOMPoint(this.left + x * this.width, this.top + (1 - y) * this.height)
      .matrixTransform(this.svg.getScreenCTM());
    for (const each of document.elementsFromPoint(screen.x, screen.y)) {
      const bar = each.closest("[data-bar]");
      if (bar) { said.push(bar.dataset.told); break; }
    }
    return [said, screen];
  }

  tell(x, y) {
    this.at = [x, y];
    const [said, screen] = this.found(x, y);
    this.cursor.setAttribute("x1", this.left + x * this.width);
    this.cursor.setAttribute("x2", this.left + x * this.width);
    this.cursor.style.display = "inline";
    tip.textContent = said.join("\n");
    tip.hidden = !said.length;
    const right = screen.x + 16 + tip.offsetWidth > innerWidth;
    tip.style.left = `${Math.max(4, right ? screen.x - 16 - tip.offsetWidth : screen.x + 16)}px`;
    tip.style.top = `${Math.min(screen.y + 12, innerHeight - tip.offsetHeight - 4)}px`;
  }

  key(event) {
    const {key} = event;
    let [x, y] = this.at;
    if (key === "ArrowLeft") x -= 0.01;
    else if (key === "ArrowRight") x += 0.01;
    else if (key === "ArrowUp") y += 1 / Math.max(this.rows, 20);
    else if (key === "ArrowDown") y -= 1 / Math.max(this.rows, 20);
    else if (key === "+" || key === "=") this.zoom(0.5);
    else if (key === "-") this.zoom(2);
    else if (key === "0") this.show(0, 1);
    else if (key === "Escape") { hide(); return; }
    else return;
    event.preventDefault();
    if (x < 0 || x > 1) this.show(...[this.from, this.to].map(
      each => each + (this.to - this.from) * Math.sign(x) * 0.1));
    this.tell(Math.min(1, Math.max(0, x)), Math.min(0.999, Math.max(0.001, y)));
  }

  // Show so many times as much, about the cursor.
  zoom(times) {
    const middle = this.from + this.at[0] * (this.to - this.from), wide = (this.to - this.from) * times;
    this.show(middle - this.at[0] * wide, middle + (1 - this.at[0]) * wide);
  }

  // Show a part of the whole in these axes, and in all that have the same x axis.
  show(from, to) {
    if (!this.zooms) return;
    const wide = Math.min(1, Math.max(1e-4, to - from));
    from = Math.min(1 - wide, Math.max(0, from));
    for (const each of this.svg.axes)
      if (each.zooms && each.group.dataset.x === this.group.dataset.x) each.move(from, from + wide);
  }

  move(from, to) {
    [this.from, this.to] = [from, to];
    this.moved ||= this.parted();
    const scale = 1 / (to - from), shift = this.left * (1 - scale) - from * this.width * scale;
    this.moved.setAttribute("transform", `matrix(${scale} 0 0 1 ${shift} 0)`);
    const whole = from === 0 && to === 1;
    for (const tick of this.ticks) tick.style.display = whole ? "" : "none";
    this.own?.remove();
    if (!whole) this.label();
  }

  // Put all that has values into one group, which moves behind a window that stays.
  parted() {
    const [window_, inner] = ["", "moved"].map(name => drawn(this.group, "g", {class: name}));
    const has = [...this.group.children].filter(each => each !== this.axis &&
      !each.id.includes("matplotlib.axis_") && (each.matches("[clip-path]") || each.querySelector("[clip-path]")));
    if (has.length) has[0].before(window_);
    window_.append(inner);
    for (const each of has) {
      for (const cut of [each, ...each.querySelectorAll("[clip-path]")]) {
        const path = cut.getAttribute("clip-path");
        if (path) { window_.setAttribute("clip-path", path); cut.removeAttribute("clip-path"); }
      }
      inner.append(each);
    }
    return inner;
  }

  // Numbers along the part of the axis that is shown.
  label() {
    this.own = drawn(this.group, "g", {class: "ticks"});
    const [low, high] = [this.from, this.to].map(this.x.value);
    const size = 10 ** Math.floor(Math.log10((high - low) / 4));
    const step = [1, 2, 5, 10].map(each => each * size).find(each => (high - low) / each <= 6);
    const text = this.axis.querySelector("text");
    for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) {
      const x = this.left + (this.x.part(tick) - this.from) / (this.to - this.from) * this.width;
      const bottom = this.top + this.height;
      drawn(this.own, "line", {x1: x, x2: x, y1: bottom, y2: bottom + 3.5});
      if (!text) continue;
      drawn(this.own, "text", {x, y: bottom + 14}).textContent = String(+tick.toPrecision(8));
    }
  }
}

function hide() {
  tip.hidden = true;
  for (const line of document.querySelectorAll(".cursor")) line.style.display = "none";
}

// Words of a plot stand in <title>, where they serve without this script; a browser would show
// them as well as the tip.
for (const title of document.querySelectorAll("figure svg g > title")) {
  const told = title.parentNode;
  told.dataset.told = title.textContent;
  told.setAttribute("aria-label", title.textContent);
  if (!("values" in told.dataset)) told.dataset.bar = "";
  title.remove();
}

for (const svg of document.querySelectorAll("figure svg")) {
  svg.axes = [...svg.querySelectorAll("[data-box]")].map(group => new Axes(group));
  const zooming = svg.axes.filter(each => each.zooms);
  const over = event => svg.axes.find(
    each => each.parts(event).every(part => part >= 0 && part <= 1));
  let begun = null, chosen = null;
  svg.addEventListener("pointerleave", () => { if (!begun) hide(); });
  svg.addEventListener("pointerdown", event => {
    const axes = over(event);
    if (!axes?.zooms || event.pointerType === "touch" || event.button) return;
    event.preventDefault();
    begun = [axes, axes.parts(event)[0]];
    chosen = drawn(axes.group, "rect", {class: "chosen", y: axes.top, height: axes.height, width: 0});
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", event => {
    const axes = begun ? begun[0] : over(event);
    hide();
    if (!axes) return;
    const [x, y] = axes.parts(event);
    if (!begun) { axes.tell(x, y); return; }
    const [low, high] = [begun[1], x].map(each => Math.min(1, Math.max(0, each))).sort((a, b) => a - b);
    chosen.setAttribute("x", axes.left + low * axes.width);
    chosen.setAttribute("width", (high - low) * axes.width);
  });
  svg.addEventListener("pointerup", event => {
    if (!begun) return;
    const [axes, start] = begun, end = axes.parts(event)[0];
    begun = null;
    chosen.remove();
    const [low, high] = [start, end].map(each => Math.min(1, Math.max(0, each))).sort((a, b) => a - b);
    const wide = axes.to - axes.from;
    if (high - low > 0.01) axes.show(axes.from + low * wide, axes.from + high * wide);
  });
  svg.addEventListener("dblclick", event => over(event)?.show(0, 1));
  if (!zooming.length) continue;
  const buttons = document.createElement("p");
  buttons.className = "zoom";
  const acts = [["+", "zoom in", each => each.zoom(0.5)], ["\u2212", "zoom out", each => each.zoom(2)],
    ["all", "show all", each => each.show(0, 1)]];
  for (const [text, label, act] of acts) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", () => zooming.forEach(
      (each, place) => zooming.findIndex(other => other.group.dataset.x === each.group.dataset.x) === place && act(each)));
    buttons.append(button);
  }
  svg.after(buttons);
}

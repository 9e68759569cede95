// A line chart of few series over time, drawn as SVG.
//
// It has lines, a grid and a legend whose entries toggle lines. For the keyboard and screen readers it is a slider over
// time with the values at that time, and a summary of every line.
// Not here: where points come from (samples.js), where ticks go (scale.js).

import { clock } from "../app/format.js";
import { freshId, h, s, setText } from "../parts/dom.js";
import { chosenRange } from "./samples.js";
import { timeTicks, valueTicks } from "./scale.js";

const HEIGHT = 208;
const MARGIN = { left: 52, right: 10, top: 10, bottom: 22 };
const SHORT_CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export class Chart {
  #series;
  #show;
  #ticks;
  #points = new Map();
  #times = [];
  #latest = {};
  #cursor = null;
  #hidden = new Set();
  #width = 480;
  #grid = s("g");
  #lines = s("g");
  #mark = s("line", { class: "cursor", y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, visibility: "hidden" });
  #svg;
  #readout = h("p", { class: "readout" });
  #summary;
  #values = new Map();

  /** `series` are `[key, label]`; `show(value)` writes a value, `ticks` are the options of `valueTicks`. */
  constructor({ title, series, show, ticks = {} }) {
    this.#series = series;
    this.#show = show;
    this.#ticks = ticks;
    const caption = freshId("chart");
    this.#summary = h("p", { class: "unseen", id: `${caption}-summary` });
    this.#svg = s(
      "svg",
      {
        role: "slider",
        tabindex: "0",
        "aria-labelledby": caption,
        "aria-describedby": `${caption}-summary`,
        "aria-valuemin": "0",
        "aria-valuemax": "0",
        "aria-valuenow": "0",
      },
      this.#grid,
      this.#lines,
      this.#mark,
    );
    this.#listen();
    this.element = h(
      "figure",
      { class: "chart" },
      h("div", { class: "chart-head" }, h("figcaption", { id: caption }, title), this.#readout),
      this.#svg,
      this.#legend(),
      this.#summary,
    );
    new ResizeObserver(() => this.#resized()).observe(this.#svg);
    this.#draw();
  }

  /** `points` and `latest` by key: points `[time, value]`, oldest first, and the current value. */
  update(points, latest) {
    const moment = this.#cursor === null ? null : this.#times[this.#cursor];
    this.#points = new Map(Object.entries(points));
    this.#latest = latest;
    this.#times = longest([...this.#points.values()]).map(([time]) => time);
    const found = moment === null ? -1 : this.#times.indexOf(moment);
    this.#cursor = found < 0 ? null : found;
    this.#draw();
  }

  #legend() {
    return h(
      "ul",
      { class: "legend" },
      this.#series.map(([key, label], at) => {
        const value = h("span", { class: "value" });
        this.#values.set(key, value);
        const swatch = s(
          "svg",
          { viewBox: "0 0 26 8", "aria-hidden": "true" },
          s("path", { class: `line series-${at + 1}`, d: "M1 4H25" }),
        );
        const button = h(
          "button",
          { type: "button", "aria-pressed": "true", onclick: () => this.#toggle(key, button) },
          swatch,
          h("span", { class: "name" }, label),
          value,
        );
        return h("li", {}, button);
      }),
    );
  }

  #toggle(key, button) {
    const hidden = !this.#hidden.delete(key);
    if (hidden) this.#hidden.add(key);
    button.setAttribute("aria-pressed", String(!hidden));
    this.#draw();
  }

  #listen() {
    this.#svg.addEventListener("pointermove", (event) => this.#point(event));
    this.#svg.addEventListener("pointerleave", () => this.#move(null));
    this.#svg.addEventListener("blur", () => this.#move(null));
    this.#svg.addEventListener("keydown", (event) => this.#key(event));
  }

  #point(event) {
    if (!this.#times.length) return;
    const box = this.#svg.getBoundingClientRect();
    const [start, end] = this.#span();
    const time =
      start + ((event.clientX - box.left - MARGIN.left) / (this.#width - MARGIN.left - MARGIN.right)) * (end - start);
    this.#move(
      this.#times.reduce(
        (best, at, index) => (Math.abs(at - time) < Math.abs(this.#times[best] - time) ? index : best),
        0,
      ),
    );
  }

  #key(event) {
    const last = this.#times.length - 1;
    const here = this.#cursor ?? last;
    const target = {
      ArrowLeft: here - 1,
      ArrowDown: here - 1,
      ArrowRight: here + 1,
      ArrowUp: here + 1,
      Home: 0,
      End: last,
      Escape: null,
    }[event.key];
    if (target === undefined || last < 0) return;
    event.preventDefault();
    this.#move(target === null ? null : Math.min(last, Math.max(0, target)));
  }

  #move(cursor) {
    this.#cursor = cursor;
    this.#read();
  }

  #resized() {
    const width = Math.round(this.#svg.getBoundingClientRect().width);
    if (width === 0 || width === this.#width) return;
    this.#width = width;
    this.#draw();
  }

  #span() {
    const end = this.#times.at(-1) ?? Date.now();
    return [end - chosenRange()[0] * 1000, end];
  }

  #visible() {
    return this.#series
      .map(([key, label], at) => ({ key, label, at, points: this.#points.get(key) ?? [] }))
      .filter(({ key }) => !this.#hidden.has(key));
  }

  #draw() {
    const [start, end] = this.#span();
    const highest = Math.max(0, ...this.#visible().flatMap(({ points }) => points.map(([, value]) => value)));
    const ticks = valueTicks(highest, 4, this.#ticks);
    const x = (time) => MARGIN.left + ((time - start) / (end - start)) * (this.#width - MARGIN.left - MARGIN.right);
    const y = (value) => HEIGHT - MARGIN.bottom - (value / ticks.at(-1)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    this.#svg.setAttribute("viewBox", `0 0 ${this.#width} ${HEIGHT}`);
    this.#grid.replaceChildren(...this.#gridLines(ticks, x, y, start, end));
    this.#lines.replaceChildren(
      ...this.#visible().map(({ at, points }) =>
        s("path", { class: `line series-${at + 1}`, d: pathOf(points, x, y) }),
      ),
    );
    this.#read();
    setText(this.#summary, this.#summaryText());
  }

  #gridLines(ticks, x, y, start, end) {
    const right = this.#width - MARGIN.right;
    const across = ticks.flatMap((value) => [
      s("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }),
      s("text", { class: "tick", x: MARGIN.left - 7, y: y(value) + 4, "text-anchor": "end" }, this.#show(value)),
    ]);
    const times = timeTicks(start, end, Math.max(2, Math.floor(this.#width / 95)));
    const below = times.ticks.map((time) =>
      s(
        "text",
        { class: "tick", x: Math.min(x(time), right - 18), y: HEIGHT - 4, "text-anchor": "middle" },
        times.seconds ? clock(time) : SHORT_CLOCK.format(time),
      ),
    );
    const nothing = this.#times.length
      ? []
      : [s("text", { class: "nothing", x: (MARGIN.left + right) / 2, y: HEIGHT / 2 }, "Nothing measured yet")];
    return [...across, ...below, ...nothing];
  }

  /** The values at the cursor, or the current ones. */
  #read() {
    const at = this.#cursor;
    const time = at === null ? null : this.#times[at];
    for (const [key] of this.#series) setText(this.#values.get(key), this.#show(this.#valueAt(key, time)) || "–");
    setText(this.#readout, time === null ? "" : `at ${clock(time)}`);
    this.#svg.setAttribute("aria-valuemax", String(Math.max(0, this.#times.length - 1)));
    this.#svg.setAttribute("aria-valuenow", String(at ?? Math.max(0, this.#times.length - 1)));
    const words = this.#series
      .map(([key, label]) => `${label} ${this.#show(this.#valueAt(key, time)) || "nothing"}`)
      .join(", ");
    this.#svg.setAttribute("aria-valuetext", `${time === null ? "Now" : clock(time)}: ${words}`);
    this.#placeMark(time);
  }

  #placeMark(time) {
    this.#mark.setAttribute("visibility", time === null ? "hidden" : "visible");
    if (time === null) return;
    const [start, end] = this.#span();
    const x = MARGIN.left + ((time - start) / (end - start)) * (this.#width - MARGIN.left - MARGIN.right);
    this.#mark.setAttribute("x1", x);
    this.#mark.setAttribute("x2", x);
  }

  #valueAt(key, time) {
    if (time === null) return this.#latest[key];
    return this.#points.get(key)?.find(([at]) => at === time)?.[1];
  }

  #summaryText() {
    const lines = this.#visible()
      .filter(({ points }) => points.length)
      .map(({ key, label, points }) => {
        const values = points.map(([, value]) => value);
        return `${label}: now ${this.#show(this.#latest[key])}, lowest ${this.#show(Math.min(...values))}, highest ${this.#show(Math.max(...values))}.`;
      });
    return [`${chosenRange()[2]}.`, ...lines].join(" ");
  }
}

const longest = (lists) => lists.reduce((best, list) => (list.length > best.length ? list : best), []);

function pathOf(points, x, y) {
  return points.map(([time, value], at) => `${at ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("");
}

// Names and values of one object, and a row of totals.

import { likeness, render } from "./cells.js";
import { h } from "./dom.js";

const UNKNOWN = "–"; // a link is read out by its text: it has one before the first answer

export class Facts {
  #entries = new Map();

  constructor() {
    this.element = h("dl", { class: "facts" });
  }

  /** Show these `[name, cell]` pairs; pairs with an undefined or empty cell are left out. */
  update(pairs) {
    const wanted = pairs.filter(([, cell]) => cell !== undefined && cell !== null && cell !== "" && cell.length !== 0);
    if (wanted.length !== this.#entries.size || wanted.some(([name]) => !this.#entries.has(name))) this.#lay(wanted);
    for (const [name, cell] of wanted) {
      const entry = this.#entries.get(name);
      const looks = likeness(cell);
      if (entry.looks === looks) continue;
      entry.looks = looks;
      entry.place.replaceChildren(...render(cell, () => undefined));
    }
  }

  #lay(wanted) {
    this.#entries = new Map(wanted.map(([name]) => [name, { looks: null, place: h("dd") }]));
    this.element.replaceChildren(...[...this.#entries].flatMap(([name, { place }]) => [h("dt", {}, name), place]));
  }
}

export class Tiles {
  #values = new Map();

  /** `names` are `[name, address]`; the address is optional. */
  constructor(names) {
    this.element = h(
      "dl",
      { class: "tiles" },
      names.map(([name, href]) => this.#tile(name, href)),
    );
  }

  update(values) {
    for (const [name, text] of Object.entries(values)) {
      const place = this.#values.get(name);
      if (place && place.textContent !== text) place.textContent = text;
    }
  }

  #tile(name, href) {
    const value = href ? h("a", { href }, UNKNOWN) : h("span", {}, UNKNOWN);
    this.#values.set(name, value);
    return h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value));
  }
}

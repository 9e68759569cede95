// A table that keeps its rows between updates: rows have keys, and a cell changes only if its content does. So nothing
// flickers, and an update keeps the focus and the selected text.
//
// A column: {key, title, cell(row), number?, wrap?, sort?: field, fields?: [field], phone?, hidden?}. The first column
// names its row.
// Not here: where rows come from, pages, filters (listing.js).

import { likeness, render } from "./cells.js";
import { h } from "./dom.js";

export class Table {
  #columns;
  #keyOf;
  #rows = new Map();
  #head = h("tr");
  #body = h("tbody");
  #empty;
  #onSort;

  constructor({ caption, captionShown = false, columns, keyOf, empty = "Nothing here.", onSort = null }) {
    this.#columns = columns;
    this.#keyOf = keyOf;
    this.#onSort = onSort;
    this.#empty = h("p", { class: "empty", hidden: true }, empty);
    const words = h("caption", { class: captionShown ? "" : "unseen" }, caption);
    this.table = h("table", {}, words, h("thead", {}, this.#head), this.#body);
    // wide tables scroll in a frame that the keyboard can reach
    this.element = h(
      "div",
      { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
      this.table,
      this.#empty,
    );
    this.show(columns);
  }

  /** Show these columns in this order, and mark the sort column. */
  show(columns, sort = "", descending = false) {
    const changed =
      columns.length !== this.#columns.length || columns.some((column, at) => column !== this.#columns[at]);
    this.#columns = columns;
    if (changed) this.#rows.clear();
    if (changed || this.#head.childElementCount === 0)
      this.#head.replaceChildren(...columns.map((column) => this.#heading(column)));
    columns.forEach((column, at) => {
      if (!column.sort || !this.#onSort) return;
      const state = column.sort === sort ? (descending ? "descending" : "ascending") : "none";
      this.#head.children[at].setAttribute("aria-sort", state);
    });
  }

  update(rows) {
    const kept = new Map();
    const focused = document.activeElement;
    let place = this.#body.firstElementChild;
    for (const row of rows) {
      const key = this.#keyOf(row);
      const line = this.#rows.get(key) ?? this.#line();
      kept.set(key, line);
      this.#fill(line, row);
      if (line.element === place) place = place.nextElementSibling;
      else this.#body.insertBefore(line.element, place);
    }
    for (const extra of [...this.#body.children].slice(kept.size)) extra.remove();
    this.#rows = kept;
    this.#empty.hidden = rows.length > 0;
    if (focused !== document.activeElement && this.#body.contains(focused)) focused.focus();
  }

  #heading(column) {
    const content =
      column.sort && this.#onSort
        ? h("button", { type: "button", class: "sort", onclick: () => this.#onSort(column.sort) }, column.title)
        : h("span", { class: column.title === "Actions" ? "unseen" : null }, column.title);
    return h("th", { scope: "col", class: column.number ? "number" : null }, content);
  }

  #line() {
    const cells = this.#columns.map((column, at) => {
      const element = at === 0 ? h("th", { scope: "row" }) : h("td");
      if (column.number) element.classList.add("number");
      if (column.wrap) element.classList.add("wrap");
      return { element, looks: null };
    });
    return {
      row: null,
      cells,
      element: h(
        "tr",
        {},
        cells.map((cell) => cell.element),
      ),
    };
  }

  #fill(line, row) {
    line.row = row;
    this.#columns.forEach((column, at) => {
      const content = column.cell(row);
      const looks = likeness(content);
      const cell = line.cells[at];
      if (cell.looks === looks) return;
      cell.looks = looks;
      cell.element.replaceChildren(...render(content, () => line.row));
    });
  }
}

// A list of the API with filter, pages, order and columns, which the node applies.
//
// The state is in the address (for the back button); columns and page size are stored in the browser. Only shown fields
// are requested. A list that the API cannot page is filtered and cut here.

import { get } from "../app/api.js";
import { count } from "../app/format.js";
import { keepQuery } from "../app/router.js";
import { remember, setting } from "../app/settings.js";
import { announce, freshId, h, setText } from "./dom.js";
import { selectPage } from "./selection.js";
import { Table } from "./table.js";

const PAGE_SIZES = [25, 100, 500];
const DEFAULT_PAGE_SIZE = 100;
const FILTER_PAUSE_MS = 300;
const PHONE = "(max-width: 40rem)";

/** The column of names, which a phone shows too. */
export function nameColumn(cell, title = "Name") {
  return { key: "name", title, sort: "name", phone: true, cell };
}

export class Listing {
  #options;
  #state;
  #told = "";
  #asked = true;
  #pageCount = 1;
  #table;
  #filter = h("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: () => this.#typed() });
  #regex = h("input", {
    type: "checkbox",
    onchange: () => this.#restate({ use_regex: this.#regex.checked ? "true" : "", page: 1 }),
  });
  #complaint = h("p", { class: "answer bad", role: "alert" });
  #position = h("span");
  #previous = h("button", { type: "button", class: "small", onclick: () => this.#turn(-1) }, "Previous");
  #next = h("button", { type: "button", class: "small", onclick: () => this.#turn(1) }, "Next");
  #typing = 0;

  /**
   * `{name, thing, things, caption, where(), columns, keyOf, query, extra?, pick?, named?}`; `extra` are fields
   * that are always requested.
   */
  constructor(options) {
    this.#options = { extra: [], named: (row) => row.name ?? "", pick: (rows) => rows, ...options };
    this.#state = startState(options);
    this.#filter.value = this.#state.name;
    this.#regex.checked = this.#state.use_regex === "true";
    this.#table = new Table({
      caption: options.caption,
      columns: this.#chosen(),
      keyOf: options.keyOf,
      empty: `No ${options.things} to show.`,
      onSort: (field) => this.#sortBy(field),
    });
    this.element = h("div", { class: "panel" }, this.#tools(), this.#complaint, this.#table.element);
  }

  async refresh(signal) {
    const state = { ...this.#state };
    let page;
    try {
      page = await this.#page(state, signal);
    } catch (trouble) {
      const complaint = filterProblem(trouble, state);
      if (!complaint) throw trouble;
      setText(this.#complaint, complaint);
      return;
    }
    setText(this.#complaint, "");
    if (page.page_count > 0 && page.items.length === 0 && state.page > page.page_count)
      return this.#beyond(page.page_count, signal);
    this.#show(page);
  }

  async #page(state, signal) {
    const answer = await get(this.#options.where(), { ...state, pagination: "true", columns: this.#fields() }, signal);
    return Array.isArray(answer) ? selectPage(this.#options.pick(answer), state, this.#options.named) : answer;
  }

  /** The list became shorter than the current page. */
  #beyond(last, signal) {
    this.#state.page = last;
    return this.refresh(signal);
  }

  #show(page) {
    this.#table.show(this.#chosen(), this.#state.sort, this.#state.sort_reverse === "true");
    this.#table.update(page.items);
    const pages = Math.max(1, page.page_count);
    this.#pageCount = pages;
    const first = page.items.length ? (this.#state.page - 1) * this.#state.page_size + 1 : 0;
    const filtered = page.filtered_count < page.total_count ? ` (of ${count(page.total_count)})` : "";
    const position = page.filtered_count
      ? `${count(first)}–${count(first + page.items.length - 1)} of ${count(page.filtered_count)}${filtered}`
      : `none${filtered}`;
    setText(this.#position, position);
    this.#previous.disabled = this.#state.page <= 1;
    this.#next.disabled = this.#state.page >= pages;
    const said = `${page.filtered_count ? position : "No"} ${this.#options.things}.`;
    if (this.#asked && said !== this.#told) announce(said);
    this.#told = said;
    this.#asked = false;
  }

  #tools() {
    const sizes = h(
      "select",
      { onchange: () => this.#resize(Number(sizes.value)) },
      PAGE_SIZES.map((size) => h("option", { value: String(size) }, `${size} a page`)),
    );
    sizes.value = String(this.#state.page_size);
    return h(
      "div",
      { class: "list-tools", role: "search", "aria-label": this.#options.caption },
      h("div", { class: "field" }, labelled("Filter by name", this.#filter)),
      h("label", { class: "check" }, this.#regex, "Regular expression"),
      this.#columnChooser(),
      h(
        "div",
        { class: "pager" },
        this.#previous,
        this.#position,
        this.#next,
        h("label", {}, h("span", { class: "unseen" }, "Rows on a page"), sizes),
      ),
    );
  }

  #columnChooser() {
    const shown = new Set(this.#chosen());
    const boxes = this.#options.columns.slice(1).map((column) => {
      const box = h("input", {
        type: "checkbox",
        checked: shown.has(column),
        onchange: () => this.#choose(column.key, box.checked),
      });
      return h("label", { class: "check" }, box, column.title);
    });
    const chooser = h(
      "details",
      { class: "columns" },
      h("summary", {}, "Columns"),
      h("fieldset", {}, h("legend", { class: "unseen" }, "Columns"), boxes),
    );
    const close = (event) => {
      if (!chooser.contains(event.target)) chooser.open = false;
    };
    chooser.addEventListener("toggle", () =>
      document[chooser.open ? "addEventListener" : "removeEventListener"]("click", close),
    );
    chooser.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !chooser.open) return;
      chooser.open = false;
      chooser.querySelector("summary").focus();
    });
    return chooser;
  }

  #chosen() {
    const { name, columns } = this.#options;
    const phone = matchMedia(PHONE).matches;
    const standard = columns.filter((column) => (phone ? column.phone : !column.hidden)).map((column) => column.key);
    const keys = new Set(setting(`columns.${name}`, standard));
    return columns.filter((column, at) => at === 0 || keys.has(column.key));
  }

  #fields() {
    const fields = this.#chosen().flatMap((column) => column.fields ?? []);
    return [...new Set([...this.#options.extra, ...fields])].join(",");
  }

  #choose(key, wanted) {
    const keys = this.#chosen()
      .map((column) => column.key)
      .filter((other) => other !== key);
    remember(`columns.${this.#options.name}`, wanted ? [...keys, key] : keys);
    this.#ask();
  }

  #typed() {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => this.#restate({ name: this.#filter.value, page: 1 }), FILTER_PAUSE_MS);
  }

  #turn(by) {
    const page = Math.min(Math.max(1, this.#state.page + by), this.#pageCount);
    this.#restate({ page });
  }

  #resize(size) {
    remember("page-size", size);
    this.#restate({ page_size: size, page: 1 });
  }

  #sortBy(field) {
    const again = this.#state.sort === field;
    const numeric = this.#options.columns.find((column) => column.sort === field)?.number;
    // numbers start with the largest
    const descending = again ? this.#state.sort_reverse !== "true" : Boolean(numeric);
    this.#restate({ sort: field, sort_reverse: descending ? "true" : "", page: 1 });
  }

  #restate(changes) {
    Object.assign(this.#state, changes);
    const { name, use_regex, sort, sort_reverse, page } = this.#state;
    keepQuery({ name, use_regex, sort, sort_reverse, page: page > 1 ? page : "" });
    this.#ask();
  }

  #ask() {
    this.#asked = true;
    this.element.dispatchEvent(new CustomEvent("refresh", { bubbles: true }));
  }
}

function startState({ query, sort = "", descending = false }) {
  return {
    page: Math.max(1, Number.parseInt(query.page, 10) || 1),
    page_size: setting("page-size", DEFAULT_PAGE_SIZE),
    name: query.name ?? "",
    use_regex: query.use_regex === "true" ? "true" : "",
    sort: query.sort ?? sort,
    sort_reverse: (query.sort ? query.sort_reverse === "true" : descending) ? "true" : "",
  };
}

function labelled(text, input) {
  const id = freshId("field");
  input.id = id;
  return [h("label", { for: id }, text), input];
}

/** The error of the filter, if it caused the failure. */
function filterProblem(trouble, { name, use_regex }) {
  const refused = trouble instanceof SyntaxError || trouble.status === 400;
  return refused && use_regex === "true" && name ? "The filter is not a regular expression the node understands." : "";
}

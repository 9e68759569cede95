// The frame of every page: navigation, settings of all pages, and the page itself.
//
// A view is a function of `{names, query}` that returns `{title, crumb, content, refresh}`. `refresh(signal)` is
// called repeatedly while the page is open. A part of a page that changes something on the node fires the event
// `changed`, which refreshes at once.

import { get, silentNodes } from "./api.js";
import { Poller, paceSeconds } from "./poll.js";
import { link } from "./router.js";
import { findView, navigation } from "./routes.js";
import { currentUser } from "./session.js";
import { chosenVhost, remember, setting } from "./settings.js";
import { announce, freshId, h, setText } from "../parts/dom.js";

const THEMES = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];
const PACES = [
  ["1", "Every second"],
  ["5", "Every 5 seconds"],
  ["15", "Every 15 seconds"],
  ["60", "Every minute"],
  ["0", "Do not refresh"],
];
const ALL_VHOSTS = "All";

export class Shell {
  #leave;
  #where = null;
  #poller = null;
  #shown = 0;
  #trouble = h("p", { class: "notice bad", role: "alert" });
  #silent = h("p", { class: "notice", role: "status" });
  #frame = h("div", { class: "shell" });
  #main = h("main", { id: "main", tabindex: "-1" });
  #nav = h("nav", { id: "ways", "aria-label": "Pages" });
  #menu = h(
    "button",
    { class: "menu-button", type: "button", "aria-expanded": "false", "aria-controls": "ways choices" },
    "Menu",
  );
  #vhosts = h("select", { onchange: () => this.#choseVhost() });

  /** `leave(said)` ends the session, with a sentence for the login page. */
  constructor(leave) {
    this.#leave = leave;
    this.#main.addEventListener("changed", () => this.#changed());
    this.#main.addEventListener("refresh", () => this.#poller?.now());
    this.#frame.append(this.#side(), h("div", { class: "page" }, this.#top(), this.#main));
    this.elements = [this.#skipLink(), this.#frame];
  }

  close() {
    this.#poller?.stop();
  }

  /** Shows the page of an address; a page that loads too late, after another was opened, is dropped. */
  async show(where) {
    const first = this.#where === null;
    this.#where = where;
    const ticket = ++this.#shown;
    this.#poller?.stop();
    this.#main.setAttribute("aria-busy", "true"); // until the new page has something to show
    this.#openMenu(false);
    this.#nav.replaceChildren(...this.#ways(where.names[0] ?? ""));
    this.#learnVhosts();
    const view = await this.#viewOf(where);
    if (ticket === this.#shown) this.#mount(view, first);
  }

  async #viewOf(where) {
    try {
      const make = await findView(where.names);
      return make({ names: where.names, query: where.query });
    } catch (trouble) {
      return {
        title: "This page could not be shown",
        content: h("p", { class: "notice bad", role: "alert" }, trouble.message),
        refresh: async () => {},
      };
    }
  }

  #mount(view, first) {
    const title = h("h1", { tabindex: "-1" }, view.title);
    document.title = `${view.title} · Warren`;
    this.#trouble.textContent = "";
    const heading = h(
      "header",
      { class: "heading" },
      view.crumb ? h("p", { class: "crumb" }, view.crumb) : null,
      title,
    );
    this.#main.replaceChildren(heading, this.#trouble, this.#silent, ...[view.content].flat());
    this.#poller = new Poller(view.refresh, (trouble) => this.#roundEnded(trouble));
    this.#poller.now();
    if (!first) title.focus();
    window.scrollTo(0, 0);
  }

  #roundEnded(trouble) {
    if (trouble?.loginFailed) this.#leave("Please log in again.");
    const said = trouble ? trouble.message : "";
    setText(this.#trouble, said);
    const silent = silentNodes();
    setText(this.#silent, silent ? `No response from ${silent}: its own data is missing here.` : "");
    this.#main.setAttribute("aria-busy", "false");
  }

  #changed() {
    this.#poller?.now();
    this.#learnVhosts();
  }

  #skipLink() {
    const skip = (event) => {
      event.preventDefault();
      this.#main.focus();
      this.#main.scrollIntoView();
    };
    return h("a", { class: "skip", href: "#main", onclick: skip }, "Skip to the page");
  }

  #side() {
    this.#menu.addEventListener("click", () => this.#openMenu(this.#menu.getAttribute("aria-expanded") === "false"));
    const brand = h("a", { class: "brand", href: link() }, h("img", { src: "burrow.svg", alt: "" }), "Warren");
    return h("header", { class: "side" }, h("div", { class: "side-inner" }, brand, this.#menu, this.#nav));
  }

  /** On a phone, navigation and settings are behind a button. */
  #openMenu(open) {
    this.#frame.classList.toggle("menu-open", open);
    this.#menu.setAttribute("aria-expanded", String(open));
  }

  #ways(here) {
    return navigation().flatMap(([heading, pages]) => {
      const items = pages.map(([name, text]) => {
        const current = name === here ? { "aria-current": "page" } : {};
        return h("li", {}, h("a", { href: name ? link(name) : "#/", ...current }, text));
      });
      const id = freshId("ways");
      return heading
        ? [h("p", { class: "ways", id }, heading), h("ul", { "aria-labelledby": id }, items)]
        : [h("ul", {}, items)];
    });
  }

  #top() {
    const paces = chooser(PACES, String(paceSeconds()), (pace) => this.#chosePace(Number(pace)));
    const themes = chooser(THEMES, setting("theme", "system"), chooseTheme);
    const button = (text, act) => h("button", { type: "button", class: "small", onclick: act }, text);
    const { name, tags } = currentUser();
    return h(
      "div",
      { class: "top", id: "choices", role: "region", "aria-label": "Choices" },
      h("label", {}, "Virtual host", this.#vhosts),
      h("label", {}, "Update", paces),
      h("label", {}, "Colours", themes),
      button("Update now", () => this.#poller?.now()),
      h(
        "div",
        { class: "who" },
        h("span", {}, `${name} (${tags.join(", ")})`),
        button("Log out", () => this.#leave()),
      ),
    );
  }

  #chosePace(pace) {
    remember("pace", pace);
    this.#poller?.now();
  }

  #choseVhost() {
    remember("vhost", this.#vhosts.value);
    announce(
      this.#vhosts.value ? `Lists show the virtual host ${this.#vhosts.value}.` : "Lists show all virtual hosts.",
    );
    this.#where.query = {};
    this.show(this.#where);
  }

  async #learnVhosts() {
    let names;
    try {
      names = (await get("vhosts", { columns: "name" })).map((vhost) => vhost.name);
    } catch {
      return; // the page shows the error
    }
    const chosen = chosenVhost();
    if (["", ...names].join("\n") !== [...this.#vhosts.options].map((option) => option.value).join("\n")) {
      const options = names.map((name) => h("option", { value: name }, name));
      this.#vhosts.replaceChildren(h("option", { value: "" }, ALL_VHOSTS), ...options);
    }
    this.#vhosts.value = names.includes(chosen) ? chosen : "";
    if (this.#vhosts.value !== chosen) this.#choseVhost();
  }
}

/** A select of `[value, text]` that acts at once. */
function chooser(choices, value, chosen) {
  const options = choices.map(([choice, text]) => h("option", { value: choice }, text));
  const select = h("select", { onchange: () => chosen(select.value) }, options);
  select.value = value;
  return select;
}

function chooseTheme(theme) {
  remember("theme", theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

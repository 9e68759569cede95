// Content of table cells and facts as data, so that descriptions can be compared and only changes are drawn.
//
//   "text" · {text, href, title} · {badge, kind, title} · {button, act, danger} · {used, of, text} · a list of these

import { h } from "./dom.js";

const HIGH_SHARE = 0.85;

/** Equal for descriptions that look the same. */
export const likeness = (cell) => JSON.stringify(cell) ?? "";

/** The DOM nodes of a description; `context` is passed to `act` when a button is pressed. */
export function render(cell, context) {
  if (cell === null || cell === undefined || cell === "") return [];
  if (Array.isArray(cell))
    return cell.flatMap((one, at) => (at ? [" ", ...render(one, context)] : render(one, context)));
  if (typeof cell !== "object") return [document.createTextNode(String(cell))];
  if ("badge" in cell) return [h("span", { class: `badge ${cell.kind ?? ""}`.trim(), title: cell.title }, cell.badge)];
  if ("button" in cell) return [button(cell, context)];
  if ("used" in cell) return [bar(cell)];
  if (cell.href) return [h("a", { href: cell.href, title: cell.title }, cell.text)];
  return [h("span", { title: cell.title, class: cell.class }, cell.text)];
}

function button(cell, context) {
  const classes = cell.danger ? "small danger" : "small";
  return h(
    "button",
    { type: "button", class: classes, "aria-label": cell.label, onclick: (event) => cell.act(context(), event.target) },
    cell.button,
  );
}

/** A text with a bar below it. */
function bar({ used, of, text }) {
  const share = of > 0 ? Math.min(1, Math.max(0, used / of)) : 0;
  const fill = h("span", { class: share > HIGH_SHARE ? "bar-fill high" : "bar-fill" });
  fill.style.width = `${(share * 100).toFixed(1)}%`;
  return h("span", {}, text, h("span", { class: "bar", "aria-hidden": "true" }, fill));
}

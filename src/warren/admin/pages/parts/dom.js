// Creates elements from names, attributes and children. Text is never parsed as markup, so names that look like markup
// are shown unchanged.

const SVG = "http://www.w3.org/2000/svg";

let ids = 0;

/** A unique id. */
export const freshId = (word) => `${word}-${++ids}`;

export const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

function build(element, attributes = {}, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Change a text only if it differs, so that nothing flickers or is read out twice. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Announce to screen readers. */
export function announce(text) {
  setText(document.getElementById("announcements"), text);
}

/** Tell the shell that this element changed something on the node. */
export function tellChanged(element) {
  element.dispatchEvent(new CustomEvent("changed", { bubbles: true }));
}

/** A section with a heading. */
export function panel(title, ...children) {
  const id = freshId("panel");
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), children);
}

/** The same, collapsed. */
export function folded(title, ...children) {
  return h("details", { class: "panel" }, h("summary", {}, h("h2", {}, title)), h("div", {}, children));
}

// A table of arguments as rows of name, type and value. Buttons for known names fill in name and type.
//
// `known` are `{key, type, title?, hint?, values?, value?}`; types are those of JSON: text, number, yesno, json.

import { valueText } from "../app/format.js";
import { h } from "./dom.js";
import { FieldError } from "./form.js";

const TYPES = [
  ["text", "Text"],
  ["number", "Number"],
  ["yesno", "Yes/no"],
  ["json", "JSON"],
];

export function mapField(name, label, known = [], { value = {} } = {}) {
  const entries = h("div", { class: "entries" });
  const element = h(
    "fieldset",
    {},
    h("legend", {}, label),
    entries,
    chips(known, (one) => add(one.key, one.type, one.value ?? "", one)),
    h("p", { class: "hint small soft" }),
  );

  function add(key, type, content, about = known.find((one) => one.key === key)) {
    const row = entryRow(key, type, content, about);
    entries.append(row);
    setHint(about);
    row.querySelector(key ? ".entry-value" : ".entry-key").focus();
  }

  function setHint(about) {
    element.querySelector(".hint").textContent = about?.hint ?? "";
  }

  function show(table) {
    entries.replaceChildren(
      ...Object.entries(table).map(([key, content]) =>
        entryRow(
          key,
          typeOf(content),
          valueText(content),
          known.find((one) => one.key === key),
        ),
      ),
    );
    setHint(null);
  }

  show(value);
  return { name, element, show, read: () => readEntries(entries), clear: () => show(value) };
}

function chips(known, chosen) {
  const other = { key: "", type: "text", title: "Another" };
  return h(
    "div",
    { class: "chips", role: "group", "aria-label": "Add" },
    [...known, other].map((one) =>
      h("button", { type: "button", title: one.hint, onclick: () => chosen(one) }, `+ ${one.title ?? one.key}`),
    ),
  );
}

function entryRow(key, type, content, about) {
  const name = h("input", {
    class: "entry-key",
    type: "text",
    "aria-label": "Name",
    value: key,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "name",
  });
  const kinds = h(
    "select",
    { class: "entry-type", "aria-label": "Type" },
    TYPES.map(([kind, text]) => h("option", { value: kind }, text)),
  );
  kinds.value = type;
  const value = valueInput(about, type, content);
  const drop = h("button", { type: "button", class: "small", "aria-label": `Remove ${key || "this entry"}` }, "✕");
  const row = h("div", { class: "entry" }, name, kinds, value, drop);
  drop.addEventListener("click", () => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    const elsewhere = next ? next.querySelector("input") : row.closest("fieldset").querySelector(".chips button");
    row.remove();
    elsewhere.focus();
  });
  return row;
}

function valueInput(about, type, content) {
  const values = about?.values ?? (type === "yesno" ? ["true", "false"] : null);
  const attributes = { class: "entry-value", "aria-label": "Value" };
  if (!values)
    return h("input", {
      ...attributes,
      type: "text",
      value: content,
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "value",
    });
  const select = h(
    "select",
    attributes,
    values.map((value) => h("option", { value }, value)),
  );
  if (content !== "") select.value = content;
  return select;
}

function readEntries(entries) {
  const table = {};
  for (const row of entries.children) {
    const [key, type, value] = row.querySelectorAll(".entry-key, .entry-type, .entry-value");
    if (key.value === "" && value.value === "") continue;
    if (key.value === "") throw new FieldError("An argument has no name.", key);
    table[key.value] = parsed(type.value, value);
  }
  return table;
}

function parsed(type, input) {
  const text = input.value;
  if (type === "text") return text;
  if (type === "yesno") return yesOrNo(text, input);
  if (type === "number") {
    if (text.trim() === "" || !Number.isFinite(Number(text))) throw new FieldError(`“${text}” is not a number.`, input);
    return Number(text);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new FieldError(`“${text}” is not JSON.`, input);
  }
}

function yesOrNo(text, input) {
  if (/^(true|yes)$/i.test(text)) return true;
  if (/^(false|no)$/i.test(text)) return false;
  throw new FieldError(`“${text}” is neither true nor false.`, input);
}

function typeOf(value) {
  return { string: "text", number: "number", boolean: "yesno" }[typeof value] ?? "json";
}

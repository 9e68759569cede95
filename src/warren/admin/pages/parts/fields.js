// The fields of forms. Each is `{name, element, read(), clear?()}`; `read` throws `FieldError` for an invalid value.
// Not here: tables of arguments (map_field.js).

import { freshId, h } from "./dom.js";
import { FieldError } from "./form.js";

function framed(label, input, hint) {
  const id = freshId("field");
  input.id = id;
  const words = hint ? h("span", { class: "hint", id: `${id}-hint` }, hint) : null;
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, words);
}

/** `options`: hint, value, required, type, autocomplete, list (suggestions). */
export function textField(
  name,
  label,
  { hint, value = "", required = false, type = "text", autocomplete = "off", list } = {},
) {
  const input = h("input", { type, value, autocomplete, required, spellcheck: "false", autocapitalize: "off" });
  const element = framed(label, input, hint);
  if (list) element.append(suggestions(input, list));
  const read = () => {
    if (required && input.value === "") throw new FieldError(`${label} is missing.`, input);
    return input.value;
  };
  return { name, element, input, read, clear: () => (input.value = value) };
}

export function numberField(name, label, { hint, value = "", required = false, min = 0 } = {}) {
  const input = h("input", { type: "text", inputmode: "numeric", value: String(value), autocomplete: "off", required });
  const element = framed(label, input, hint);
  const read = () => {
    const text = input.value.trim();
    if (text === "" && !required) return undefined;
    const number = Number(text);
    if (!/^-?\d+$/.test(text) || number < min)
      throw new FieldError(`${label} must be a whole number from ${min} up.`, input);
    return number;
  };
  return { name, element, input, read, clear: () => (input.value = String(value)) };
}

export function areaField(name, label, { hint, value = "" } = {}) {
  const input = h("textarea", { spellcheck: "false", rows: "4" });
  input.value = value;
  return {
    name,
    element: framed(label, input, hint),
    input,
    read: () => input.value,
    clear: () => (input.value = value),
  };
}

/** `choices` are `[value, text]`. */
export function choiceField(name, label, choices, { hint, value } = {}) {
  const input = h(
    "select",
    {},
    choices.map(([choice, text]) => h("option", { value: choice }, text)),
  );
  if (value !== undefined) input.value = value;
  return { name, element: framed(label, input, hint), input, read: () => input.value };
}

export function checkField(name, label, { value = false, hint } = {}) {
  const input = h("input", { type: "checkbox", checked: value });
  const element = h(
    "div",
    { class: "field" },
    h("label", { class: "check" }, input, label),
    hint ? h("span", { class: "hint" }, hint) : null,
  );
  return { name, element, input, read: () => input.checked, clear: () => (input.checked = value) };
}

/** Checkboxes; reads a list. */
export function checksField(name, label, choices, { value = [] } = {}) {
  const boxes = choices.map(([choice, text]) => [
    choice,
    h("input", { type: "checkbox", checked: value.includes(choice) }),
    text,
  ]);
  const element = h(
    "fieldset",
    {},
    h("legend", {}, label),
    boxes.map(([, box, text]) => h("label", { class: "check" }, box, text)),
  );
  const set = (chosen) => boxes.forEach(([choice, box]) => (box.checked = chosen.includes(choice)));
  return {
    name,
    element,
    set,
    read: () => boxes.filter(([, box]) => box.checked).map(([choice]) => choice),
    clear: () => set(value),
  };
}

export function fileField(name, label, { hint, accept } = {}) {
  const input = h("input", { type: "file", accept });
  const read = () => {
    if (input.files.length === 0) throw new FieldError("No file was chosen.", input);
    return input.files[0];
  };
  return { name, element: framed(label, input, hint), input, read, clear: () => (input.value = "") };
}

function suggestions(input, list) {
  const id = freshId("list");
  input.setAttribute("list", id);
  return h(
    "datalist",
    { id },
    list.map((value) => h("option", { value })),
  );
}

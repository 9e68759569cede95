// Forms: labelled fields, one button, and the result beside it as a sentence.
//
// Errors are shown beside the form in the API's words. Actions that cannot be undone ask for confirmation. After a
// change the page refreshes.
// Not here: fields (fields.js).

import { confirmed } from "./dialog.js";
import { h, tellChanged } from "./dom.js";

/** An invalid value and its input. */
export class FieldError extends Error {
  constructor(message, input) {
    super(message);
    this.input = input;
  }
}

/**
 * `{label, fields, submit, danger?, inline?, keep?, ask?(values), send(values)}`; `send` returns a sentence, or
 * nothing if it leads to another page. Fields may be grouped in lists.
 */
export function form({ label, fields, submit, danger = false, inline = false, keep = false, ask, send }) {
  const all = fields.flat();
  const button = h("button", { class: danger ? "danger" : "main" }, submit);
  const good = h("p", { class: "answer good", role: "status" });
  const bad = h("p", { class: "answer bad", role: "alert" });
  const rows = fields.map((field) =>
    Array.isArray(field)
      ? h(
          "div",
          { class: "pair" },
          field.map((one) => one.element),
        )
      : field.element,
  );
  const element = h(
    "form",
    { "aria-label": label, class: inline ? "inline" : null, novalidate: true },
    rows,
    h("div", { class: "row" }, button),
    good,
    bad,
  );

  async function submitted(event) {
    event.preventDefault();
    if (button.disabled) return;
    good.textContent = "";
    bad.textContent = "";
    for (const input of element.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
    try {
      const values = Object.fromEntries(all.map((field) => [field.name, field.read()]));
      const question = ask?.(values);
      if (question && !(await confirmed(question))) return;
      button.disabled = true;
      const said = await send(values);
      if (said === undefined) return; // it leads to another page
      good.textContent = said;
      if (!keep) for (const field of all) field.clear?.();
      tellChanged(element);
    } catch (trouble) {
      bad.textContent = trouble.message;
      if (trouble.input) complainAbout(trouble.input);
    } finally {
      button.disabled = false;
    }
  }

  element.addEventListener("submit", submitted);
  return element;
}

function complainAbout(input) {
  input.setAttribute("aria-invalid", "true");
  input.focus();
}

/** A button that acts, after a confirmation if one is given, and shows the result. */
export function actionButton({ text, danger = false, ask, act }) {
  return form({ label: text, fields: [], submit: text, danger, inline: true, keep: true, ask, send: act });
}

/** The same in a table cell; `told` shows the result. */
export async function actFromTable(button, { ask, act, told }) {
  if (ask && !(await confirmed(ask))) return;
  button.disabled = true;
  try {
    told("good", await act());
    tellChanged(button);
  } catch (trouble) {
    told("bad", trouble.message);
  } finally {
    button.disabled = false;
  }
}

/** An element under a table in which `told` shows sentences: `{element, told}`. */
export function answerPlace() {
  const good = h("p", { class: "answer good", role: "status" });
  const bad = h("p", { class: "answer bad", role: "alert" });
  const told = (kind, text) => {
    good.textContent = kind === "good" ? text : "";
    bad.textContent = kind === "bad" ? text : "";
  };
  return { element: h("div", { class: "answers" }, good, bad), told };
}

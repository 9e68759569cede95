// Forms: labelled fields, one button, and the answer beside it as a sentence.
//
// A form sends what its fields read; what went wrong is told beside it and in the words of the API. What cannot be
// undone is asked about first. After a change the page is told, so that it shows the new state.
// Not here: fields (fields.js).

import { confirmed } from "./dialog.js";
import { h, tellChanged } from "./dom.js";

/** A value that cannot be sent, and the input that holds it. */
export class FieldError extends Error {
  constructor(message, input) {
    super(message);
    this.input = input;
  }
}

/**
 * `{label, fields, submit, danger?, inline?, keep?, ask?(values), send(values)}`; `send` answers a sentence, or nothing
 * if it leads to another page. Fields may be grouped in lists.
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

/** A single button that acts, after a question if there is one, and says what came of it. */
export function actionButton({ text, danger = false, ask, act }) {
  return form({ label: text, fields: [], submit: text, danger, inline: true, keep: true, ask, send: act });
}

/** The same from a cell of a table: troubles are told by `told`. */
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

/** A place under a table where `told` puts its sentences: `{element, told}`. */
export function answerPlace() {
  const good = h("p", { class: "answer good", role: "status" });
  const bad = h("p", { class: "answer bad", role: "alert" });
  const told = (kind, text) => {
    good.textContent = kind === "good" ? text : "";
    bad.textContent = kind === "bad" ? text : "";
  };
  return { element: h("div", { class: "answers" }, good, bad), told };
}

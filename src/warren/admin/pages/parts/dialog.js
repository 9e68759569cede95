// Confirmation of actions that cannot be undone.

import { freshId, h } from "./dom.js";

/**
 * Whether the operator confirmed; `{title, text, action}`. The focus starts on Cancel and returns to where it was.
 */
export function confirmed({ title, text, action }) {
  const heading = freshId("dialog");
  const body = freshId("dialog");
  const cancel = h("button", { value: "no", autofocus: true }, "Cancel");
  const agree = h("button", { value: "yes", class: "main danger" }, action);
  const dialog = h(
    "dialog",
    { "aria-labelledby": heading, "aria-describedby": body },
    h(
      "form",
      { method: "dialog" },
      h("h2", { id: heading }, title),
      h("p", { id: body }, text),
      h("div", { class: "row" }, cancel, agree),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}

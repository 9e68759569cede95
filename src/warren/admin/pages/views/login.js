// Login: user and password, kept until the tab is closed.

import { login } from "../app/session.js";
import { h } from "../parts/dom.js";
import { textField } from "../parts/fields.js";
import { form } from "../parts/form.js";

/** `said` is the reason for a new login, if any; `entered()` is called after a successful login. */
export function loginPage(said, entered) {
  document.title = "Log in · Warren";
  const door = form({
    label: "Log in",
    fields: [
      textField("user", "User", { required: true, autocomplete: "username" }),
      textField("password", "Password", { type: "password", autocomplete: "current-password" }),
    ],
    submit: "Log in",
    keep: true,
    send: async ({ user, password }) => {
      await login(user, password);
      entered();
    },
  });
  const notice = h("p", { class: "notice", role: "status" }, said);
  return h(
    "main",
    { class: "door" },
    h(
      "div",
      { class: "door-card" },
      h("div", { class: "brand" }, h("img", { src: "burrow.svg", alt: "" }), "Warren"),
      h("h1", {}, "Log in"),
      notice,
      door,
    ),
  );
}

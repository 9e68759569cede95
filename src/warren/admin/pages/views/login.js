// Login: user and password, kept until the tab is closed; or at an issuer.

import { login } from "../app/session.js";
import { h } from "../parts/dom.js";
import { textField } from "../parts/fields.js";
import { form } from "../parts/form.js";

/**
 * `said` is the reason for a new login, if any; `issuer` is where else to log in, or null; `entered()` is called after a
 * successful login.
 */
export function loginPage(said, issuer, entered) {
  document.title = "Log in · Warren";
  const notice = h("p", { class: "notice", role: "status" }, said);
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
  const elsewhere = () => {
    notice.textContent = "";
    issuer.begin().catch((trouble) => {
      notice.textContent = trouble.message;
    });
  };
  return h(
    "main",
    { class: "door" },
    h(
      "div",
      { class: "door-card" },
      h("div", { class: "brand" }, h("img", { src: "burrow.svg", alt: "" }), "Warren"),
      h("h1", {}, "Log in"),
      notice,
      issuer ? h("button", { type: "button", onclick: elsewhere }, `Log in at ${issuer.host}`) : null,
      !issuer || issuer.takesPasswords ? door : null,
    ),
  );
}

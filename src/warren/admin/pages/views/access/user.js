// One user: tags and password, permissions, topic permissions, limits.

import { get, path, put, remove } from "../../app/api.js";
import { link } from "../../app/router.js";
import { folded, h, panel } from "../../parts/dom.js";
import { Facts } from "../../parts/facts.js";
import { checksField, choiceField, textField } from "../../parts/fields.js";
import { actionButton, FieldError, form } from "../../parts/form.js";
import { limitForm, limitTable } from "../../sections/limits.js";
import { permissionSection, topicPermissionSection } from "../../sections/permissions.js";
import { limitText, TAGS, tagList } from "./users.js";

const KEEP = "keep";
const CLEAR = "clear";

export default function user({ names: [, name] }) {
  const here = path("users", name);
  const facts = new Facts();
  const tags = checksField("tags", "Tags", TAGS);
  const permissions = permissionSection({ where: `${here}/permissions`, user: name });
  const topics = topicPermissionSection({ where: `${here}/topic-permissions`, user: name });
  const limits = limitTable("user");
  let shown = "";

  async function refresh(signal) {
    const [one] = await Promise.all([get(here, {}, signal), permissions.refresh(signal), topics.refresh(signal)]);
    facts.update([
      ["Tags", tagList(one.tags).map((tag) => ({ badge: tag }))],
      ["Password", one.password_hash ? "set" : "none"],
      ["Hash algorithm", one.hashing_algorithm],
      ["Limits", limitText(one.limits)],
    ]);
    limits.update(one.limits && Object.keys(one.limits).length ? [{ user: name, value: one.limits }] : []);
    const now = tagList(one.tags).join();
    if (now !== shown) tags.set(tagList(one.tags)); // an update does not undo the user's ticks
    shown = now;
  }

  const content = [
    panel("Details", facts.element),
    panel("Permissions", permissions.element),
    panel("Topic permissions", topics.element),
    panel("Limits", limits.element, limitForm("user", name)),
    folded("Change tags or password", changeForm(here, name, tags)),
    folded("Delete this user", deleteButton(here, name)),
  ];
  return { title: name, crumb: h("a", { href: link("users") }, "Users"), content, refresh };
}

function changeForm(here, name, tags) {
  const what = choiceField("what", "Password", [
    [KEEP, "Keep it"],
    ["set", "Change it"],
    [CLEAR, "Remove it: no login with a password"],
  ]);
  const password = textField("password", "New password", { type: "password", autocomplete: "new-password" });
  const again = textField("again", "Repeat password", { type: "password", autocomplete: "new-password" });
  // for password managers: the user name
  const known = h("input", { type: "text", autocomplete: "username", value: name, readonly: true, hidden: true });
  const fresh = h("div", { class: "pair" }, known, password.element, again.element);
  fresh.hidden = true;
  what.input.addEventListener("change", () => (fresh.hidden = what.input.value !== "set"));
  const both = {
    name: "passwords",
    element: fresh,
    read: () => readPasswords(what, password, again),
    clear: () => [password, again].forEach((field) => field.clear()),
  };
  return form({
    label: "Change this user",
    fields: [tags, what, both],
    submit: "Save",
    keep: true,
    send: async ({ tags: chosen, what: change, passwords }) => {
      await put(here, { tags: chosen.join(","), ...(await secret(here, change, passwords)) });
      both.clear();
      return `“${name}” was changed.`;
    },
  });
}

function readPasswords(what, password, again) {
  if (what.input.value !== "set") return "";
  if (password.input.value === "") throw new FieldError("New password is missing.", password.input);
  if (password.input.value !== again.input.value) throw new FieldError("The two passwords differ.", again.input);
  return password.input.value;
}

/** The API needs a password or a hash with every change: the current hash, unless a new password is set. */
async function secret(here, change, password) {
  if (change === CLEAR) return { password_hash: "" };
  if (change !== KEEP) return { password };
  const { password_hash, hashing_algorithm } = await get(here);
  return { password_hash, hashing_algorithm };
}

function deleteButton(here, name) {
  return actionButton({
    text: "Delete the user",
    danger: true,
    ask: () => ({
      title: "Delete the user?",
      text: `“${name}” and their permissions are deleted. Their connections are closed.`,
      action: "Delete",
    }),
    act: async () => {
      await remove(here);
      location.hash = link("users");
    },
  });
}

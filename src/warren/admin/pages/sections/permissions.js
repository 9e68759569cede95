// Permissions and topic permissions of a user or in a virtual host: list, set, clear.
//
// On a page of a virtual host the form asks for the user; on a page of a user it asks for the virtual host.

import { get, path, put, remove } from "../app/api.js";
import { link } from "../app/router.js";
import { h } from "../parts/dom.js";
import { textField } from "../parts/fields.js";
import { actFromTable, answerPlace, form } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { vhostField } from "./vhost_choice.js";

const code = (text) => ({ text: text || "(nothing)", class: text ? "code" : "soft" });

/** `{where, user | vhost}` to `{element, refresh}`. */
export function permissionSection(given) {
  return section({
    ...given,
    caption: "Permissions",
    columns: ["configure", "write", "read"].map((key) => ({
      key,
      title: { configure: "Configure", write: "Write", read: "Read" }[key],
      cell: (row) => code(row[key]),
    })),
    fields: [
      [
        textField("configure", "Configure", { value: ".*" }),
        textField("write", "Write", { value: ".*" }),
        textField("read", "Read", { value: ".*" }),
      ],
    ],
    hint: "Regular expressions over the names of queues and exchanges; an empty one matches nothing.",
    submit: "Set permission",
    save: ({ vhost, user, configure, write, read }) =>
      put(path("permissions", vhost, user), { configure, write, read }),
    clear: ({ vhost, user }) => remove(path("permissions", vhost, user)),
  });
}

export function topicPermissionSection(given) {
  return section({
    ...given,
    caption: "Topic permissions",
    columns: [
      { key: "exchange", title: "Exchange", cell: (row) => row.exchange || "(default)" },
      { key: "write", title: "Write", cell: (row) => code(row.write) },
      { key: "read", title: "Read", cell: (row) => code(row.read) },
    ],
    fields: [
      textField("exchange", "Exchange", { value: "amq.topic", required: true }),
      [textField("write", "Write", { value: ".*" }), textField("read", "Read", { value: ".*" })],
    ],
    hint: "Regular expressions over routing keys of a topic exchange; without one for an exchange, every key is allowed there.",
    submit: "Set topic permission",
    save: ({ vhost, user, exchange, write, read }) =>
      put(path("topic-permissions", vhost, user), { exchange, write, read }),
    clear: ({ vhost, user, exchange }) => remove(path("topic-permissions", vhost, user, exchange)),
  });
}

function section({ where, user, vhost, caption, columns, fields, hint, submit, save, clear }) {
  const answer = answerPlace();
  const far = user
    ? { key: "vhost", title: "Virtual host", cell: (row) => ({ text: row.vhost, href: link("vhosts", row.vhost) }) }
    : { key: "user", title: "User", cell: (row) => ({ text: row.user, href: link("users", row.user) }) };
  const drop = {
    key: "clear",
    title: "Actions",
    cell: (row) => ({
      button: "Clear",
      danger: true,
      label: `Clear for ${user ? row.vhost : row.user}`,
      act: (current, button) => cleared(current, button, answer.told, clear),
    }),
  };
  const table = new Table({
    caption,
    columns: [far, ...columns, drop],
    keyOf: (row) => JSON.stringify([row.vhost, row.user, row.exchange]),
    empty: "None.",
  });
  const other = user ? vhostField() : textField("user", "User", { required: true });
  const setting = form({
    label: submit,
    fields: [other, ...fields],
    submit,
    keep: true,
    send: async (values) => {
      await save({ user, vhost, ...values });
      return "Set.";
    },
  });
  const refresh = (signal) =>
    Promise.all([get(where, {}, signal).then((rows) => table.update(rows)), other.learn?.(signal)]);
  return {
    element: h(
      "div",
      { class: "panel-inner" },
      table.element,
      answer.element,
      h("p", { class: "soft small" }, hint),
      setting,
    ),
    refresh,
  };
}

function cleared(row, button, told, clear) {
  const ask = {
    title: "Clear the permission?",
    text: `“${row.user}” loses this permission in “${row.vhost}”.`,
    action: "Clear it",
  };
  return actFromTable(button, { ask, told, act: () => clear(row).then(() => "Cleared.") });
}

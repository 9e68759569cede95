// Limits of virtual hosts and users: list, set, clear.

import { path, put, remove } from "../app/api.js";
import { count } from "../app/format.js";
import { link } from "../app/router.js";
import { h } from "../parts/dom.js";
import { choiceField, numberField, textField } from "../parts/fields.js";
import { actFromTable, answerPlace, form } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { vhostField } from "./vhost_choice.js";

const NAMES = { vhost: ["max-connections", "max-queues"], user: ["max-connections", "max-channels"] };
const PAGES = { vhost: "vhosts", user: "users" };
const WORDS = { vhost: "Virtual host", user: "User" };

/** `kind` is "vhost" or "user"; rows are `{vhost | user, value}`. */
export function limitTable(kind) {
  const answer = answerPlace();
  const of = {
    key: kind,
    title: WORDS[kind],
    cell: (row) => ({ text: row[kind], href: link(PAGES[kind], row[kind]) }),
  };
  const limits = NAMES[kind].map((name) => ({
    key: name,
    title: name,
    cell: (row) => limitCell(kind, name, row, answer.told),
  }));
  const table = new Table({
    caption: `Limits of ${kind === "vhost" ? "virtual hosts" : "users"}`,
    columns: [of, ...limits],
    keyOf: (row) => row[kind],
    empty: "No limits are set.",
  });
  return {
    element: h("div", {}, table.element, answer.element),
    update: (rows) => table.update(rows.filter(({ value }) => Object.keys(value).length > 0)),
  };
}

function limitCell(kind, name, row, told) {
  const value = row.value[name];
  if (value === undefined) return "";
  const shown = value < 0 ? "no limit" : count(value);
  return [
    shown,
    {
      button: "Clear",
      label: `Clear ${name} of ${row[kind]}`,
      act: (current, button) => clear(kind, name, current[kind], button, told),
    },
  ];
}

function clear(kind, name, of, button, told) {
  const act = async () => {
    await remove(path(`${kind}-limits`, of, name));
    return `${name} of “${of}” is cleared.`;
  };
  return actFromTable(button, { act, told });
}

/** For `of`, or with a field that asks for it. */
export function limitForm(kind, of = null) {
  const target = of !== null ? [] : [kind === "vhost" ? vhostField() : textField("user", "User", { required: true })];
  const element = form({
    label: `Set a limit of a ${WORDS[kind].toLowerCase()}`,
    fields: [
      [
        ...target,
        choiceField(
          "name",
          "Limit",
          NAMES[kind].map((name) => [name, name]),
        ),
        numberField("value", "At most", { required: true, min: -1, hint: "-1 for no limit." }),
      ],
    ],
    submit: "Set limit",
    send: async (values) => {
      const whose = of ?? values[kind];
      await put(path(`${kind}-limits`, whose, values.name), { value: values.value });
      return `${values.name} of “${whose}” is ${values.value < 0 ? "without limit" : count(values.value)}.`;
    },
  });
  element.learn = (signal) => target[0]?.learn?.(signal);
  return element;
}

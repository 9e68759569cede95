// Bindings of an exchange or a queue: list, add, remove.

import { get, path, post, remove } from "../app/api.js";
import { exchangeName, tableText } from "../app/format.js";
import { link } from "../app/router.js";
import { choiceField, textField } from "../parts/fields.js";
import { actFromTable, answerPlace, form } from "../parts/form.js";
import { mapField } from "../parts/map_field.js";
import { h } from "../parts/dom.js";
import { Table } from "../parts/table.js";
import { BINDING_ARGUMENTS } from "./known_arguments.js";

const SHORT = { queue: "q", exchange: "e" };

/** Bindings that `where` lists; `far` is the end that is shown, "source" or "destination". `{element, refresh}`. */
export function bindingTable({ caption, where, far }) {
  const answer = answerPlace();
  const table = new Table({ caption, columns: columns(far, answer.told), keyOf: bindingKey, empty: "No bindings." });
  const refresh = async (signal) => table.update(await get(where, {}, signal));
  return { element: h("div", {}, table.element, answer.element), refresh };
}

function columns(far, told) {
  const end =
    far === "source"
      ? { key: "source", title: "From", cell: (row) => exchangeLink(row.vhost, row.source) }
      : { key: "destination", title: "To", cell: (row) => destinationLink(row) };
  return [
    end,
    { key: "routing_key", title: "Routing key", cell: (row) => ({ text: row.routing_key, class: "code" }) },
    { key: "arguments", title: "Arguments", wrap: true, cell: (row) => tableText(row.arguments) },
    {
      key: "unbind",
      title: "Actions",
      cell: (row) =>
        row.source === ""
          ? ""
          : {
              button: "Unbind",
              danger: true,
              label: `Unbind ${row.source} from ${row.destination}`,
              act: (current, button) => unbind(current, button, told),
            },
    },
  ];
}

const bindingKey = (row) => JSON.stringify([row.source, row.destination_type, row.destination, row.properties_key]);

export const exchangeLink = (vhost, name) => ({
  text: exchangeName(name),
  href: link("exchanges", vhost, name === "" ? "amq.default" : name),
});

function destinationLink(row) {
  const kind = { badge: row.destination_type };
  if (row.destination_type === "exchange") return [exchangeLink(row.vhost, row.destination), kind];
  return [{ text: row.destination, href: link("queues", row.vhost, row.destination) }, kind];
}

function unbind(row, button, told) {
  const ask = {
    title: "Unbind?",
    text: `“${row.destination}” is unbound from “${row.source}” with the key “${row.routing_key}”.`,
    action: "Unbind",
  };
  const act = async () => {
    await remove(
      path("bindings", row.vhost, "e", row.source, SHORT[row.destination_type], row.destination, row.properties_key),
    );
    return "Unbound.";
  };
  return actFromTable(button, { ask, act, told });
}

/** Bind from this exchange to something. */
export function bindFromForm(vhost, source) {
  return form({
    label: "Add a binding from this exchange",
    fields: [
      [
        choiceField("kind", "To a", [
          ["q", "Queue"],
          ["e", "Exchange"],
        ]),
        textField("destination", "Named", { required: true }),
      ],
      textField("key", "Routing key"),
      mapField("arguments", "Arguments", BINDING_ARGUMENTS),
    ],
    submit: "Bind",
    send: async (values) => {
      await post(path("bindings", vhost, "e", source, values.kind, values.destination), {
        routing_key: values.key,
        arguments: values.arguments,
      });
      return "Bound.";
    },
  });
}

/** Bind this queue or exchange to an exchange. */
export function bindToForm(vhost, kind, destination) {
  return form({
    label: "Add a binding to this",
    fields: [
      [textField("source", "From the exchange", { required: true }), textField("key", "Routing key")],
      mapField("arguments", "Arguments", BINDING_ARGUMENTS),
    ],
    submit: "Bind",
    send: async (values) => {
      await post(path("bindings", vhost, "e", values.source, SHORT[kind], destination), {
        routing_key: values.key,
        arguments: values.arguments,
      });
      return "Bound.";
    },
  });
}

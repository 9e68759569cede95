// The exchanges, and the form that adds one.

import { get, path, put } from "../app/api.js";
import { exchangeName } from "../app/format.js";
import { link } from "../app/router.js";
import { chosenVhost } from "../app/settings.js";
import { rateColumn } from "../charts/stats.js";
import { folded, h } from "../parts/dom.js";
import { checkField, choiceField, textField } from "../parts/fields.js";
import { form } from "../parts/form.js";
import { Listing, nameColumn } from "../parts/listing.js";
import { mapField } from "../parts/map_field.js";
import { EXCHANGE_ARGUMENTS } from "../sections/known_arguments.js";
import { vhostField } from "../sections/vhost_choice.js";

export default function exchanges({ query }) {
  const listing = new Listing({
    name: "exchanges",
    things: "exchanges",
    caption: "Exchanges",
    query,
    sort: "name",
    where: () => (chosenVhost() ? path("exchanges", chosenVhost()) : "exchanges"),
    keyOf: (row) => JSON.stringify([row.vhost, row.name]),
    extra: ["name", "vhost"],
    columns: [
      nameColumn((row) => ({
        text: exchangeName(row.name),
        href: link("exchanges", row.vhost, row.name === "" ? "amq.default" : row.name),
      })),
      { key: "vhost", title: "Virtual host", sort: "vhost", fields: ["vhost"], cell: (row) => row.vhost },
      { key: "type", title: "Type", sort: "type", phone: true, fields: ["type"], cell: (row) => row.type },
      {
        key: "features",
        title: "Features",
        fields: ["durable", "auto_delete", "internal", "arguments"],
        cell: exchangeBadges,
      },
      { key: "policy", title: "Policy", sort: "policy", fields: ["policy"], cell: (row) => row.policy },
      rateColumn("publish_in", "Rate in"),
      rateColumn("publish_out", "Rate out"),
    ],
  });
  const [add, learn] = addForm();
  const refresh = (signal) => Promise.all([listing.refresh(signal), learn(signal)]);
  return { title: "Exchanges", content: [listing.element, folded("Add an exchange", add)], refresh };
}

export function exchangeBadges(row) {
  return [
    row.durable ? { badge: "durable" } : { badge: "transient" },
    row.auto_delete ? { badge: "auto-delete" } : "",
    row.internal ? { badge: "internal" } : "",
    ...Object.entries(row.arguments ?? {}).map(([key, value]) => ({
      badge: key,
      title: `${key}: ${JSON.stringify(value)}`,
    })),
  ].filter(Boolean);
}

function addForm() {
  const vhost = vhostField();
  const type = choiceField("type", "Type", [["direct", "direct"]]);
  const learn = async (signal) => {
    await vhost.learn(signal);
    if (type.input.childElementCount > 1) return;
    const { exchange_types: types = [] } = await get("overview", { columns: "exchange_types" }, signal);
    type.input.replaceChildren(...types.map(({ name }) => h("option", { value: name }, name)));
    type.input.value = "direct";
  };
  const element = form({
    label: "Add an exchange",
    fields: [
      [vhost, textField("name", "Name", { required: true })],
      [
        type,
        choiceField("durable", "Durability", [
          ["true", "Durable"],
          ["false", "Transient"],
        ]),
      ],
      checkField("auto_delete", "Delete it with its last binding"),
      checkField("internal", "Internal: only other exchanges may publish to it"),
      mapField("arguments", "Arguments", EXCHANGE_ARGUMENTS),
    ],
    submit: "Add exchange",
    send: async (values) => {
      const { vhost: into, name, ...rest } = values;
      await put(path("exchanges", into, name), { ...rest, durable: rest.durable === "true" });
      return `The exchange “${name}” was added.`;
    },
  });
  return [element, learn];
}

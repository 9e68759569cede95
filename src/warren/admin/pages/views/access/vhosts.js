// The virtual hosts, and the form that adds one.

import { path, put } from "../../app/api.js";
import { byteRate, count } from "../../app/format.js";
import { link } from "../../app/router.js";
import { folded } from "../../parts/dom.js";
import { textField } from "../../parts/fields.js";
import { form } from "../../parts/form.js";
import { Listing, nameColumn } from "../../parts/listing.js";
import { rateOf } from "../../charts/stats.js";

export default function vhosts({ query }) {
  const amount = (key, title, rest = {}) => ({
    key,
    title,
    sort: key,
    number: true,
    cell: (row) => count(row[key] ?? 0),
    ...rest,
  });
  const listing = new Listing({
    name: "vhosts",
    things: "virtual hosts",
    caption: "Virtual hosts",
    query,
    sort: "name",
    where: () => "vhosts",
    keyOf: (row) => row.name,
    columns: [
      nameColumn((row) => ({ text: row.name, href: link("vhosts", row.name) })),
      { key: "description", title: "Description", sort: "description", wrap: true, cell: (row) => row.description },
      { key: "tags", title: "Tags", cell: (row) => (row.tags ?? []).map((tag) => ({ badge: tag })) },
      { key: "state", title: "State", phone: true, cell: vhostState },
      amount("messages_ready", "Ready", { phone: true }),
      amount("messages_unacknowledged", "Unacked"),
      amount("messages", "Total"),
      { key: "publish", title: "Published", number: true, cell: (row) => rateOf(row, "publish") },
      { key: "deliver", title: "Delivered", number: true, cell: (row) => rateOf(row, "deliver_get") },
      {
        key: "in",
        title: "From clients",
        number: true,
        hidden: true,
        cell: (row) => byteRate(row.recv_oct_details?.rate),
      },
      {
        key: "out",
        title: "To clients",
        number: true,
        hidden: true,
        cell: (row) => byteRate(row.send_oct_details?.rate),
      },
      { key: "tracing", title: "Tracing", cell: (row) => (row.tracing ? { badge: "on", kind: "warn" } : "off") },
    ],
  });
  return {
    title: "Virtual hosts",
    content: [listing.element, folded("Add a virtual host", addForm())],
    refresh: (signal) => listing.refresh(signal),
  };
}

export function vhostState(row) {
  const states = Object.entries(row.cluster_state ?? {});
  return states.map(([node, state]) => ({ badge: state, kind: state === "running" ? "good" : "bad", title: node }));
}

function addForm() {
  return form({
    label: "Add a virtual host",
    fields: [
      [textField("name", "Name", { required: true }), textField("description", "Description")],
      textField("tags", "Tags", { hint: "Separated by commas." }),
    ],
    submit: "Add virtual host",
    send: async ({ name, description, tags }) => {
      await put(path("vhosts", name), { description, tags });
      return `The virtual host “${name}” was added.`;
    },
  });
}

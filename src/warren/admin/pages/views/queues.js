// The queues, and the form that adds one.

import { path, put } from "../app/api.js";
import { bytes, count } from "../app/format.js";
import { link } from "../app/router.js";
import { isCluster } from "../app/session.js";
import { chosenVhost } from "../app/settings.js";
import { countColumn, rateColumn } from "../charts/stats.js";
import { folded } from "../parts/dom.js";
import { checkField, choiceField, textField } from "../parts/fields.js";
import { form } from "../parts/form.js";
import { Listing, nameColumn } from "../parts/listing.js";
import { mapField } from "../parts/map_field.js";
import { QUEUE_ARGUMENTS } from "../sections/known_arguments.js";
import { mirrorBadges } from "../sections/mirrors.js";
import { vhostField } from "../sections/vhost_choice.js";

// RabbitMQ's abbreviations; the title explains each.
const SHORT = {
  "x-message-ttl": "TTL",
  "x-expires": "Exp",
  "x-max-length": "Lim",
  "x-max-length-bytes": "Lim B",
  "x-overflow": "Ovfl",
  "x-dead-letter-exchange": "DLX",
  "x-dead-letter-routing-key": "DLK",
  "x-max-priority": "Pri",
  "x-ha-mode": "Mir",
  "x-copy-from": "Copy",
  "x-copy-routing-key": "Copy key",
  "x-single-active-consumer": "SAC",
  "x-delivery-limit": "Dlv lim",
  "x-queue-mode": "mode",
};

export default function queues({ query }) {
  const listing = new Listing({
    name: "queues",
    things: "queues",
    caption: "Queues",
    query,
    sort: "name",
    where: () => (chosenVhost() ? path("queues", chosenVhost()) : "queues"),
    keyOf: (row) => JSON.stringify([row.vhost, row.name]),
    extra: ["name", "vhost"],
    columns: columns(),
  });
  const vhost = vhostField();
  const refresh = (signal) => Promise.all([listing.refresh(signal), vhost.learn(signal)]);
  return { title: "Queues", content: [listing.element, folded("Add a queue", addForm(vhost))], refresh };
}

function columns() {
  return [
    nameColumn((row) => ({ text: row.name, href: link("queues", row.vhost, row.name) })),
    { key: "vhost", title: "Virtual host", sort: "vhost", fields: ["vhost"], cell: (row) => row.vhost },
    {
      key: "state",
      title: "State",
      sort: "state",
      fields: ["state", "sync_percent"],
      cell: queueState,
    },
    countColumn("messages_ready", "Ready", { phone: true }),
    countColumn("messages_unacknowledged", "Unacked"),
    countColumn("messages", "Total", { phone: true }),
    countColumn("consumers", "Consumers"),
    rateColumn("publish", "Incoming"),
    rateColumn("deliver_get", "Delivered"),
    rateColumn("ack", "Acked"),
    {
      key: "policy",
      title: "Policy",
      sort: "policy",
      fields: ["policy", "operator_policy"],
      cell: (row) => [row.policy, row.operator_policy].filter(Boolean).join(", "),
    },
    {
      key: "features",
      title: "Features",
      fields: ["type", "durable", "auto_delete", "exclusive", "arguments"],
      cell: queueBadges,
    },
    {
      key: "message_bytes",
      title: "Bytes",
      sort: "message_bytes",
      number: true,
      hidden: true,
      fields: ["message_bytes"],
      cell: (row) => bytes(row.message_bytes),
    },
    {
      key: "memory",
      title: "Memory",
      sort: "memory",
      number: true,
      hidden: true,
      fields: ["memory"],
      cell: (row) => bytes(row.memory),
    },
    rateColumn("redeliver", "Redelivered", { hidden: true }),
    {
      key: "node",
      title: "Node",
      sort: "node",
      hidden: !isCluster(),
      fields: ["node", "slave_nodes", "synchronised_slave_nodes"],
      cell: (row) => [row.node, ...mirrorBadges(row)],
    },
  ];
}

export function queueState({ state, sync_percent: percent }) {
  return state
    ? {
        badge: percent === undefined ? state : `${state} ${count(percent)} %`,
        kind: { running: "good", flow: "warn", down: "bad", crashed: "bad", stopped: "bad" }[state] ?? "",
      }
    : "";
}

export function queueBadges(row) {
  return [
    row.type && row.type !== "classic" ? { badge: row.type } : "",
    row.durable ? { badge: "durable" } : { badge: "transient" },
    row.exclusive ? { badge: "exclusive" } : "",
    row.auto_delete ? { badge: "auto-delete" } : "",
    ...Object.entries(row.arguments ?? {})
      .filter(([key]) => key !== "x-queue-type")
      .map(([key, value]) => ({
        badge: SHORT[key] ?? key.replace(/^x-/, ""),
        title: `${key}: ${JSON.stringify(value)}`,
      })),
  ].filter(Boolean);
}

function addForm(vhost) {
  return form({
    label: "Add a queue",
    fields: [
      [vhost, textField("name", "Name", { required: true })],
      choiceField("durable", "Durability", [
        ["true", "Durable: it survives a restart"],
        ["false", "Transient"],
      ]),
      checkField("auto_delete", "Delete it with its last consumer"),
      mapField("arguments", "Arguments", QUEUE_ARGUMENTS),
    ],
    submit: "Add queue",
    send: async ({ vhost: into, name, durable, auto_delete, arguments: chosen }) => {
      await put(path("queues", into, name), { durable: durable === "true", auto_delete, arguments: chosen });
      return `The queue “${name}” was added.`;
    },
  });
}

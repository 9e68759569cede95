// The overview: totals, rates, nodes, listeners.

import { get } from "../app/api.js";
import { count } from "../app/format.js";
import { link } from "../app/router.js";
import { may } from "../app/session.js";
import { sampleQuery } from "../charts/samples.js";
import { MESSAGE_RATES, lengthChart, rangeChooser, rateChart } from "../charts/stats.js";
import { h, panel, setText } from "../parts/dom.js";
import { Tiles } from "../parts/facts.js";
import { Table } from "../parts/table.js";
import { nodeTable } from "../sections/nodes.js";

const TOTALS = [
  ["Messages"],
  ["Queues", link("queues")],
  ["Exchanges", link("exchanges")],
  ["Connections", link("connections")],
  ["Channels", link("channels")],
  ["Consumers"],
];

export default function overview() {
  const lead = h("p", { class: "lead" });
  const alarms = h("p", { class: "notice bad", role: "alert" });
  const tiles = new Tiles(TOTALS);
  const lengths = lengthChart("Queued messages");
  const rates = rateChart("Message rates", MESSAGE_RATES);
  const nodes = may("monitoring") ? nodeTable() : null;
  const listeners = may("monitoring") ? listenerTable() : null;

  async function refresh(signal) {
    const [all, every] = await Promise.all([
      get("overview", sampleQuery("lengths", "msg_rates"), signal),
      nodes ? get("nodes", {}, signal) : [],
    ]);
    setText(lead, `Node ${all.node} · cluster ${all.cluster_name} · compatible with RabbitMQ ${all.rabbitmq_version}`);
    setText(alarms, alarmText(every));
    tiles.update(totals(all));
    lengths.update(all.queue_totals);
    rates.update(all.message_stats);
    nodes?.update(every);
    listeners?.update(all.listeners ?? []);
  }

  const content = [
    h("div", { class: "row spread" }, lead, rangeChooser()),
    alarms,
    tiles.element,
    h(
      "div",
      { class: "side-by-side" },
      h("div", { class: "panel" }, lengths.element),
      h("div", { class: "panel" }, rates.element),
    ),
  ];
  if (nodes) content.push(panel("Nodes", nodes.element), panel("Ports", listeners.element));
  return { title: "Overview", content, refresh };
}

function totals(all) {
  const objects = all.object_totals ?? {};
  return {
    Messages: count(all.queue_totals?.messages ?? 0),
    Queues: count(objects.queues),
    Exchanges: count(objects.exchanges),
    Connections: count(objects.connections),
    Channels: count(objects.channels),
    Consumers: count(objects.consumers) || "–",
  };
}

function alarmText(nodes) {
  return nodes
    .flatMap((node) => [
      node.mem_alarm ? `Memory is short on ${node.name}: publishers are blocked.` : "",
      node.disk_free_alarm ? `Disk space is short on ${node.name}: publishers are blocked.` : "",
      node.paused ? `${node.name} is paused: it is cut off from the majority of the cluster.` : "",
      node.running === false && !node.paused ? `${node.name} is not running.` : "",
      node.partitions?.length ? `${node.name} is cut off from ${node.partitions.join(", ")}.` : "",
    ])
    .filter(Boolean)
    .join(" ");
}

function listenerTable() {
  return new Table({
    caption: "Ports",
    columns: [
      { key: "protocol", title: "Protocol", cell: (row) => row.protocol },
      { key: "address", title: "Address", cell: (row) => ({ text: row.ip_address, class: "code" }) },
      { key: "port", title: "Port", number: true, cell: (row) => String(row.port) },
      { key: "node", title: "Node", cell: (row) => row.node },
    ],
    keyOf: (row) => JSON.stringify([row.node, row.protocol, row.ip_address, row.port]),
    empty: "No listeners.",
  });
}

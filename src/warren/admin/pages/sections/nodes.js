// The table of nodes: their state and the resources they use.

import { bytes, count, duration } from "../app/format.js";
import { Table } from "../parts/table.js";

const LAG_HIGH_MS = 100;

export function nodeTable() {
  return new Table({
    caption: "Nodes",
    columns: [
      { key: "name", title: "Node", cell: (node) => node.name },
      { key: "type", title: "Type", cell: type },
      { key: "state", title: "State", cell: state },
      { key: "links", title: "Links", cell: links },
      { key: "uptime", title: "Uptime", cell: (node) => duration(node.uptime) },
      { key: "memory", title: "Memory", cell: (node) => share(node.mem_used, node.mem_limit, bytes) },
      { key: "disk", title: "Disk free", cell: disk },
      { key: "descriptors", title: "Descriptors", cell: (node) => share(node.fd_used, node.fd_total, count) },
      { key: "sockets", title: "Sockets", cell: (node) => share(node.sockets_used, node.sockets_total, count) },
      { key: "lag", title: "Event loop lag", cell: lag },
    ],
    keyOf: (node) => node.name,
    empty: "No node is known.",
  });
}

function type(node) {
  return node.witness ? [node.type, { badge: "witness", title: "It holds no queues." }] : node.type;
}

function state(node) {
  if (node.paused) return { badge: "paused", kind: "bad", title: "Cut off from the majority of the cluster; serves no clients." };
  if (node.running === false) return { badge: "not running", kind: "bad" };
  const alarms = [
    node.mem_alarm && { badge: "memory alarm", kind: "bad" },
    node.disk_free_alarm && { badge: "disk alarm", kind: "bad" },
    node.partitions?.length > 0 && { badge: "cut off", kind: "bad", title: node.partitions.join(", ") },
  ].filter(Boolean);
  return alarms.length ? alarms : { badge: "running", kind: "good" };
}

/** The other nodes that it is connected to. */
function links(node) {
  const names = (node.cluster_links ?? []).map((one) => one.name);
  return names.length ? { text: count(names.length), title: names.join(", ") } : "–";
}

function share(used, of, show) {
  if (!Number.isFinite(used)) return "";
  return Number.isFinite(of) ? { used, of, text: `${show(used)} of ${show(of)}` } : show(used);
}

function disk(node) {
  if (!Number.isFinite(node.disk_free)) return "";
  return { text: bytes(node.disk_free), title: `publishers are blocked below ${bytes(node.disk_free_limit)}` };
}

function lag(node) {
  const ms = node.event_loop_lag_ms;
  if (!Number.isFinite(ms)) return "–";
  const text = `${ms < 10 ? ms.toFixed(1) : count(ms)} ms`;
  return ms > LAG_HIGH_MS ? { badge: text, kind: "warn" } : text;
}

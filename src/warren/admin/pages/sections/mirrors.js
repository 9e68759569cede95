// The mirrors of a queue: badges beside its name, and on its page their nodes, synchronisation and recent events.

import { post } from "../app/api.js";
import { count, duration, moment } from "../app/format.js";
import { h, panel } from "../parts/dom.js";
import { Facts } from "../parts/facts.js";
import { actionButton } from "../parts/form.js";
import { Table } from "../parts/table.js";

const EVENTS = {
  "mirror.promoted": ["became the master", "good"],
  "mirror.added": ["added to the replica set", ""],
  "mirror.joined": ["connected to the master", ""],
  "mirror.in_sync": ["is in sync", "good"],
  "mirror.dropped": ["removed from the in-sync set", "warn"],
  "mirror.removed": ["removed from the replica set", ""],
  "mirror.damaged": ["has a damaged copy", "bad"],
  "mirror.lost_files": ["has lost files of the stream", "warn"],
  "mirror.begins_anew": ["starts with an empty copy", "warn"],
  "mirror.cannot_catch_up": ["cannot synchronise", "bad"],
};

/** `+2` for mirrors in sync, and a marked `+1` for one that is not. */
export function mirrorBadges(row) {
  const synced = row.synchronised_slave_nodes ?? [];
  const behind = (row.slave_nodes ?? []).filter((node) => !synced.includes(node));
  return [
    synced.length ? { badge: `+${synced.length}`, kind: "good", title: `In sync: ${synced.join(", ")}` } : "",
    behind.length ? { badge: `+${behind.length}`, kind: "warn", title: `Not in sync: ${behind.join(", ")}` } : "",
  ].filter(Boolean);
}

/** The part of a queue's page; hidden while the queue has no mirrors. */
export function mirrorSection(here) {
  const facts = new Facts();
  const sync = order(here, "Synchronise", "sync", "The mirrors are being synchronised.");
  const stop = order(here, "Stop synchronising", "cancel_sync", "The synchronisation was stopped.");
  const events = eventTable();
  const element = panel("Master and mirrors", facts.element, h("div", { class: "row" }, sync, stop), events.element);
  element.hidden = true;

  function update(one) {
    const { ring } = one;
    element.hidden = ring === undefined && copiesOf(one).length === 0;
    facts.update(mirrorFacts(one));
    const syncing = (ring?.catching_up ?? []).some((mirror) => mirror.under_way);
    sync.hidden = syncing || !(ring?.catching_up ?? []).length;
    stop.hidden = !syncing;
    events.element.hidden = ring === undefined;
    events.update((ring?.story ?? []).map((event, at, all) => ({ ...event, number: all.length - at })));
  }

  return { element, update };
}

function order(here, text, action, answer) {
  const act = async () => {
    await post(`${here}/actions`, { action });
    return answer;
  };
  return h("div", {}, actionButton({ text, act }));
}

/** The nodes that have a copy of the queue beside its master. */
function copiesOf(one) {
  const nodes = one.ring?.members ?? one.slave_nodes ?? one.members ?? [];
  return nodes.filter((node) => node !== (one.leader ?? one.node));
}

function mirrorFacts(one) {
  const synced = new Set(one.synchronised_slave_nodes ?? one.online ?? []);
  const running = new Set(one.slave_nodes ?? one.online ?? []);
  const behind = new Map((one.ring?.catching_up ?? []).map((mirror) => [mirror.node, mirror]));
  const state = (node) => {
    if (synced.has(node)) return { badge: "in sync", kind: "good" };
    if (!running.has(node)) return { badge: "down", kind: "bad" };
    const mirror = behind.get(node);
    return mirror?.under_way ? progress(mirror) : { badge: "not in sync", kind: "warn" };
  };
  return [
    ["Master", one.leader ?? one.node],
    ["Epoch", one.ring ? count(one.ring.epoch) : ""],
    ...copiesOf(one).map((node) => [node, state(node)]),
  ];
}

function progress({ sent, wanted, percent, seconds_left: left }) {
  const rest = left === undefined ? "" : `, ${duration(left * 1000)} left`;
  return { used: sent, of: wanted, text: `${count(percent)} % of ${count(wanted)} messages${rest}` };
}

function eventTable() {
  return new Table({
    caption: "Recent events",
    captionShown: true,
    columns: [
      { key: "at", title: "When", cell: (row) => moment(Date.parse(row.at)) },
      { key: "node", title: "Node", cell: (row) => row.node ?? "" },
      { key: "event", title: "What", cell: (row) => eventBadge(row.event) },
      { key: "epoch", title: "Epoch", number: true, cell: (row) => count(row.epoch) },
      { key: "reason", title: "Why", wrap: true, cell: (row) => row.reason ?? "" },
    ],
    keyOf: (row) => JSON.stringify([row.at, row.event, row.node, row.number]),
    empty: "Nothing since this node started.",
  });
}

function eventBadge(event) {
  const [badge, kind] = EVENTS[event] ?? [event, ""];
  return { badge, kind };
}

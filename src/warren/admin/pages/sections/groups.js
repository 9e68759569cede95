// Consumer groups and named consumers of a stream: offset, lag and active member.

import { get, path } from "../app/api.js";
import { count } from "../app/format.js";
import { link } from "../app/router.js";
import { panel } from "../parts/dom.js";
import { Table } from "../parts/table.js";

const STATES = { active: "good", retiring: "warn", waiting: "" };

/** The part of a queue's page; hidden unless the queue is a stream. */
export function groupSection(vhost, name) {
  const table = groupTable();
  const element = panel("Groups and named readers", table.element);
  element.hidden = true;

  async function refresh(one, signal) {
    element.hidden = one.type !== "stream";
    if (!element.hidden) table.update(await get(path("stream", "groups", vhost, name), {}, signal));
  }

  return { element, refresh };
}

function groupTable() {
  return new Table({
    caption: "Groups and named readers",
    columns: [
      { key: "name", title: "Name", cell: (row) => row.name },
      {
        key: "queue",
        title: "Stream",
        cell: (row) => ({ text: row.queue, href: link("queues", row.vhost, row.queue) }),
      },
      { key: "lag", title: "Lag", number: true, cell: (row) => count(row.lag) },
      { key: "offset", title: "Stored offset", number: true, cell: (row) => offset(row.offset) },
      { key: "end", title: "Next offset", number: true, cell: (row) => count(row.end) },
      { key: "members", title: "Members", wrap: true, cell: (row) => row.members.map(member) },
    ],
    keyOf: (row) => JSON.stringify([row.queue, row.name]),
    empty: "There are no named readers.",
  });
}

const offset = (given) => (given === null || given === undefined ? "nothing" : count(given));

const member = ({ name, state, node, consumer_tag: tag }) => ({
  badge: name,
  kind: STATES[state] ?? "",
  title: `${state}, consumer ${tag} at ${node}`,
});

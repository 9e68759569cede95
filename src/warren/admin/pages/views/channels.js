// The channels of all connections.

import { path } from "../app/api.js";
import { count } from "../app/format.js";
import { link } from "../app/router.js";
import { isCluster } from "../app/session.js";
import { chosenVhost } from "../app/settings.js";
import { rateOf } from "../charts/stats.js";
import { Listing } from "../parts/listing.js";

export default function channels({ query }) {
  const listing = new Listing({
    name: "channels",
    things: "channels",
    caption: "Channels",
    query,
    sort: "name",
    where: () => (chosenVhost() ? path("vhosts", chosenVhost(), "channels") : "channels"),
    keyOf: (row) => row.name,
    extra: ["name"],
    columns: channelColumns(),
  });
  return { title: "Channels", content: listing.element, refresh: (signal) => listing.refresh(signal) };
}

export function channelColumns() {
  const amount = (key, title, rest = {}) => ({
    key,
    title,
    sort: key,
    number: true,
    fields: [key],
    cell: (row) => count(row[key]),
    ...rest,
  });
  const speed = (key, title) => ({
    key,
    title,
    sort: `message_stats.${key}_details.rate`,
    number: true,
    fields: [`message_stats.${key}_details.rate`],
    cell: (row) => rateOf(row, key),
  });
  return [
    {
      key: "name",
      title: "Channel",
      sort: "name",
      phone: true,
      cell: (row) => ({ text: row.name, href: link("channels", row.name) }),
    },
    { key: "vhost", title: "Virtual host", sort: "vhost", fields: ["vhost"], cell: (row) => row.vhost },
    { key: "user", title: "User", sort: "user", fields: ["user"], cell: (row) => row.user },
    { key: "mode", title: "Mode", fields: ["confirm", "transactional"], cell: (row) => channelMode(row) },
    {
      key: "state",
      title: "State",
      sort: "state",
      phone: true,
      fields: ["state"],
      cell: (row) => channelState(row.state),
    },
    amount("consumer_count", "Consumers"),
    amount("messages_unacknowledged", "Unacked", { phone: true }),
    amount("messages_unconfirmed", "Unconfirmed"),
    {
      key: "prefetch",
      title: "Prefetch",
      sort: "prefetch_count",
      number: true,
      fields: ["prefetch_count", "global_prefetch_count"],
      cell: prefetch,
    },
    speed("publish", "Published"),
    speed("confirm", "Confirmed"),
    speed("deliver_get", "Delivered"),
    speed("ack", "Acked"),
    amount("messages_uncommitted", "Uncommitted", { hidden: true }),
    amount("acks_uncommitted", "Acks uncommitted", { hidden: true }),
    { key: "node", title: "Node", sort: "node", hidden: !isCluster(), fields: ["node"], cell: (row) => row.node },
  ];
}

export function channelState(state) {
  return state ? { badge: state, kind: state === "running" ? "good" : state === "flow" ? "warn" : "" } : "";
}

export function channelMode(row) {
  if (row.confirm) return { badge: "confirms", title: "publisher confirms" };
  return row.transactional ? { badge: "transactions" } : "";
}

function prefetch(row) {
  const parts = [
    row.prefetch_count ? `${row.prefetch_count} each` : "",
    row.global_prefetch_count ? `${row.global_prefetch_count} in all` : "",
  ];
  return parts.filter(Boolean).join(", ") || (row.prefetch_count === 0 ? "no limit" : "");
}

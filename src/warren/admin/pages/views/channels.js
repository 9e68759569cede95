// The channels of all connections.

import { path } from "../app/api.js";
import { link } from "../app/router.js";
import { isCluster } from "../app/session.js";
import { chosenVhost } from "../app/settings.js";
import { countColumn, rateColumn } from "../charts/stats.js";
import { Listing, nameColumn } from "../parts/listing.js";

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
  return [
    nameColumn((row) => ({ text: row.name, href: link("channels", row.name) }), "Channel"),
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
    countColumn("consumer_count", "Consumers"),
    countColumn("messages_unacknowledged", "Unacked", { phone: true }),
    countColumn("messages_unconfirmed", "Unconfirmed"),
    {
      key: "prefetch",
      title: "Prefetch",
      sort: "prefetch_count",
      number: true,
      fields: ["prefetch_count", "global_prefetch_count"],
      cell: prefetch,
    },
    rateColumn("publish", "Published"),
    rateColumn("confirm", "Confirmed"),
    rateColumn("deliver_get", "Delivered"),
    rateColumn("ack", "Acked"),
    countColumn("messages_uncommitted", "Uncommitted", { hidden: true }),
    countColumn("acks_uncommitted", "Acks uncommitted", { hidden: true }),
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

// The connections of clients.

import { path } from "../app/api.js";
import { byteRate, bytes, count, moment } from "../app/format.js";
import { link } from "../app/router.js";
import { isCluster } from "../app/session.js";
import { chosenVhost } from "../app/settings.js";
import { Listing, nameColumn } from "../parts/listing.js";

export default function connections({ query }) {
  const listing = new Listing({
    name: "connections",
    things: "connections",
    caption: "Connections",
    query,
    sort: "name",
    where: () => (chosenVhost() ? path("vhosts", chosenVhost(), "connections") : "connections"),
    keyOf: (row) => row.name,
    extra: ["name", "user_provided_name"],
    columns: [
      nameColumn((row) => ({
        text: row.user_provided_name || row.name,
        title: row.name,
        href: link("connections", row.name),
      })),
      {
        key: "peer",
        title: "From",
        sort: "peer_host",
        fields: ["peer_host", "peer_port"],
        cell: (row) => (row.peer_host ? `${row.peer_host}:${row.peer_port}` : ""),
      },
      { key: "vhost", title: "Virtual host", sort: "vhost", fields: ["vhost"], cell: (row) => row.vhost },
      { key: "user", title: "User", sort: "user", fields: ["user"], cell: (row) => row.user },
      {
        key: "state",
        title: "State",
        sort: "state",
        phone: true,
        fields: ["state"],
        cell: (row) => connectionState(row.state),
      },
      {
        key: "channels",
        title: "Channels",
        sort: "channels",
        number: true,
        phone: true,
        fields: ["channels"],
        cell: (row) => count(row.channels),
      },
      {
        key: "in",
        title: "From client",
        sort: "recv_oct_details.rate",
        number: true,
        fields: ["recv_oct_details.rate"],
        cell: (row) => byteRate(row.recv_oct_details?.rate),
      },
      {
        key: "out",
        title: "To client",
        sort: "send_oct_details.rate",
        number: true,
        fields: ["send_oct_details.rate"],
        cell: (row) => byteRate(row.send_oct_details?.rate),
      },
      {
        key: "tls",
        title: "TLS",
        sort: "ssl",
        fields: ["ssl"],
        cell: (row) => (row.ssl ? { badge: "TLS", kind: "good" } : ""),
      },
      {
        key: "protocol",
        title: "Protocol",
        sort: "protocol",
        hidden: true,
        fields: ["protocol"],
        cell: (row) => row.protocol,
      },
      { key: "node", title: "Node", sort: "node", hidden: !isCluster(), fields: ["node"], cell: (row) => row.node },
      {
        key: "client",
        title: "Client",
        hidden: true,
        fields: ["client_properties"],
        cell: (row) => clientText(row.client_properties),
      },
      {
        key: "frame",
        title: "Frame max",
        sort: "frame_max",
        number: true,
        hidden: true,
        fields: ["frame_max"],
        cell: (row) => bytes(row.frame_max),
      },
      {
        key: "since",
        title: "Since",
        sort: "connected_at",
        hidden: true,
        fields: ["connected_at"],
        cell: (row) => moment(row.connected_at),
      },
    ],
  });
  return { title: "Connections", content: listing.element, refresh: (signal) => listing.refresh(signal) };
}

export function connectionState(state) {
  const kind = { running: "good", flow: "warn", blocking: "warn", blocked: "bad" }[state] ?? "";
  return state ? { badge: state, kind } : "";
}

export function clientText(properties) {
  return [properties?.product, properties?.version].filter(Boolean).join(" ");
}

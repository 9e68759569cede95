// One connection: client, rates, channels, close.

import { get, headerText, path, remove } from "../app/api.js";
import { bytes, count, moment, tableText } from "../app/format.js";
import { link } from "../app/router.js";
import { sampleQuery } from "../charts/samples.js";
import { rangeChooser, rateChart } from "../charts/stats.js";
import { folded, h, panel } from "../parts/dom.js";
import { Facts } from "../parts/facts.js";
import { textField } from "../parts/fields.js";
import { form } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { channelColumns } from "./channels.js";
import { clientText, connectionState } from "./connections.js";

export default function connection({ names: [, name] }) {
  const here = path("connections", name);
  const facts = new Facts();
  const client = new Facts();
  const data = rateChart(
    "Data",
    [
      ["recv_oct", "From client"],
      ["send_oct", "To client"],
    ],
    { inBytes: true },
  );
  const channels = new Table({
    caption: "Channels",
    columns: channelColumns().filter((column) => !column.hidden),
    keyOf: (row) => row.name,
    empty: "No channels.",
  });

  async function refresh(signal) {
    const [one, its] = await Promise.all([
      get(here, sampleQuery("data_rates"), signal),
      get(path("connections", name, "channels"), {}, signal),
    ]);
    facts.update(factsOf(one));
    client.update([
      ["Client", clientText(one.client_properties)],
      ["Properties", tableText(one.client_properties)],
    ]);
    data.update(one);
    channels.update(its);
  }

  const content = [
    h(
      "div",
      { class: "side-by-side" },
      panel("Details", facts.element),
      h("div", { class: "panel" }, rangeChooser(), data.element),
    ),
    panel("Channels", channels.element),
    folded("Client", client.element),
    folded("Close this connection", closeForm(here, name)),
  ];
  return { title: name, crumb: h("a", { href: link("connections") }, "Connections"), content, refresh };
}

function factsOf(one) {
  return [
    ["Name", one.user_provided_name],
    ["State", connectionState(one.state)],
    ["User", one.user],
    ["Virtual host", one.vhost],
    ["Node", one.node],
    ["From", one.peer_host ? `${one.peer_host}:${one.peer_port}` : ""],
    ["To", one.host ? `${one.host}:${one.port}` : ""],
    ["Protocol", one.protocol],
    ["TLS", one.ssl ? [one.ssl_protocol, one.ssl_cipher, one.peer_cert_subject].filter(Boolean).join(", ") : "no"],
    ["Mechanism", one.auth_mechanism],
    ["Connected", moment(one.connected_at)],
    ["Heartbeat", one.timeout ? `${one.timeout} s` : "none"],
    ["Frame max", bytes(one.frame_max)],
    ["Channels", `${count(one.channels)} of ${count(one.channel_max)}`],
    ["Received", bytes(one.recv_oct)],
    ["Sent", bytes(one.send_oct)],
  ];
}

function closeForm(here, name) {
  return form({
    label: "Close this connection",
    fields: [textField("reason", "Reason", { value: "Closed via management", hint: "The client sees it." })],
    submit: "Close the connection",
    danger: true,
    ask: () => ({
      title: "Close the connection?",
      text: `The client at “${name}” is disconnected. Its unacked messages are requeued.`,
      action: "Close",
    }),
    send: async ({ reason }) => {
      await remove(here, { headers: reason ? { "x-reason": headerText(reason) } : {} });
      location.hash = link("connections");
    },
  });
}

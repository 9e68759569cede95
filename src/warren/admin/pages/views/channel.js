// One channel: settings, rates, consumers.

import { get, path } from "../app/api.js";
import { count, moment } from "../app/format.js";
import { link } from "../app/router.js";
import { sampleQuery } from "../charts/samples.js";
import { MESSAGE_RATES, figureFacts, rangeChooser, rateChart, rateOf } from "../charts/stats.js";
import { folded, h, panel } from "../parts/dom.js";
import { Facts } from "../parts/facts.js";
import { Table } from "../parts/table.js";
import { exchangeLink } from "../sections/bindings.js";
import { consumerTable } from "../sections/consumers.js";
import { channelMode, channelState } from "./channels.js";

export default function channel({ names: [, name] }) {
  const facts = new Facts();
  const figures = new Facts();
  const rates = rateChart("Message rates", MESSAGE_RATES);
  const consumers = consumerTable("queue");
  const publishes = wayTable("Publishes to", "publish", ({ exchange }) => exchangeLink(exchange.vhost, exchange.name));
  const deliveries = wayTable("Deliveries from", "deliver_get", ({ queue }) => ({
    text: queue.name,
    href: link("queues", queue.vhost, queue.name),
  }));

  async function refresh(signal) {
    const one = await get(path("channels", name), sampleQuery("msg_rates"), signal);
    facts.update(factsOf(one));
    figures.update(figureFacts(one.message_stats));
    rates.update(one.message_stats);
    consumers.update(one.consumer_details ?? []);
    publishes.update((one.publishes ?? []).map((way) => ({ ...way, message_stats: way.stats })));
    deliveries.update((one.deliveries ?? []).map((way) => ({ ...way, message_stats: way.stats })));
  }

  const content = [
    h(
      "div",
      { class: "side-by-side" },
      panel("Details", facts.element),
      h("div", { class: "panel" }, rangeChooser(), rates.element),
    ),
    panel("Consumers", consumers.element),
    h(
      "div",
      { class: "side-by-side" },
      panel("Publishes to", publishes.element),
      panel("Deliveries from", deliveries.element),
    ),
    folded("All statistics", figures.element),
  ];
  return { title: name, crumb: h("a", { href: link("channels") }, "Channels"), content, refresh };
}

function factsOf(one) {
  const via = one.connection_details?.name;
  return [
    ["Connection", via ? { text: via, href: link("connections", via) } : ""],
    ["State", channelState(one.state)],
    ["Mode", channelMode(one)],
    ["User", one.user],
    ["Virtual host", one.vhost],
    ["Node", one.node],
    ["Prefetch, each consumer", one.prefetch_count ? count(one.prefetch_count) : "no limit"],
    ["Prefetch, whole channel", one.global_prefetch_count ? count(one.global_prefetch_count) : "no limit"],
    ["Unacked", count(one.messages_unacknowledged)],
    ["Unconfirmed", count(one.messages_unconfirmed)],
    ["Uncommitted", `${count(one.messages_uncommitted)} messages, ${count(one.acks_uncommitted)} acks`],
    ["Idle since", one.idle_since ? moment(Date.parse(one.idle_since)) : ""],
  ];
}

function wayTable(caption, rate, cell) {
  return new Table({
    caption,
    columns: [
      { key: "name", title: "Name", cell },
      { key: "rate", title: "Rate", number: true, cell: (row) => rateOf(row, rate) },
    ],
    keyOf: (row) => row.exchange?.name ?? row.queue?.name,
    empty: "No statistics.",
  });
}

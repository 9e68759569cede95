// One queue: length, rates, policies, consumers, bindings; publish, get, move, purge, delete.

import { get, path } from "../app/api.js";
import { bytes, count, duration, moment, tableText } from "../app/format.js";
import { link } from "../app/router.js";
import { sampleQuery } from "../charts/samples.js";
import { figureFacts, lengthChart, rangeChooser, rateChart } from "../charts/stats.js";
import { folded, h, panel } from "../parts/dom.js";
import { Facts } from "../parts/facts.js";
import { bindToForm, bindingTable } from "../sections/bindings.js";
import { consumerTable } from "../sections/consumers.js";
import { groupSection } from "../sections/groups.js";
import { getSection } from "../sections/get_messages.js";
import { mirrorSection } from "../sections/mirrors.js";
import { publishForm } from "../sections/publish.js";
import { deleteQueueForm, moveForm, purgeForm } from "../sections/queue_actions.js";
import { queueBadges, queueState } from "./queues.js";

const RATES = [
  ["publish", "Incoming"],
  ["deliver_get", "Delivered"],
  ["ack", "Acked"],
  ["redeliver", "Redelivered"],
];

export default function queue({ names: [, vhost, name = ""] }) {
  const here = path("queues", vhost, name);
  const facts = new Facts();
  const contents = new Facts();
  const figures = new Facts();
  const mirrors = mirrorSection(here);
  const groups = groupSection(vhost, name);
  const lengths = lengthChart("Messages");
  const rates = rateChart("Message rates", RATES);
  const consumers = consumerTable("channel");
  const bindings = bindingTable({ caption: "Bindings to this queue", where: `${here}/bindings`, far: "source" });

  async function refresh(signal) {
    const [one] = await Promise.all([get(here, sampleQuery("lengths", "msg_rates"), signal), bindings.refresh(signal)]);
    facts.update(ruleFacts(one));
    contents.update(contentFacts(one));
    figures.update(figureFacts(one.message_stats));
    mirrors.update(one);
    lengths.update(one);
    rates.update(one.message_stats);
    consumers.update(one.consumer_details ?? []);
    await groups.refresh(one, signal);
  }

  const content = [
    h("div", { class: "row" }, rangeChooser()),
    h(
      "div",
      { class: "side-by-side" },
      h("div", { class: "panel" }, lengths.element),
      h("div", { class: "panel" }, rates.element),
    ),
    h(
      "div",
      { class: "side-by-side" },
      panel("Rules", facts.element),
      panel("Contents", contents.element),
    ),
    mirrors.element,
    groups.element,
    panel("Consumers", consumers.element),
    panel("Bindings", bindings.element),
    folded("Bind this queue", bindToForm(vhost, "queue", name)),
    folded("Publish a message", publishForm(vhost, "amq.default", name)),
    folded("Get messages", getSection(vhost, name)),
    folded("Move messages", moveForm(here, name)),
    folded("All statistics", figures.element),
    folded("Purge or delete", h("div", { class: "side-by-side" }, purgeForm(here, name), deleteQueueForm(here, name))),
  ];
  return {
    title: name,
    crumb: h("span", {}, h("a", { href: link("queues") }, "Queues"), ` in ${vhost}`),
    content,
    refresh,
  };
}

function ruleFacts(one) {
  return [
    ["State", queueState(one)],
    ["Type", one.type],
    ["Features", queueBadges({ ...one, arguments: {} })],
    ["Arguments", tableText(one.arguments)],
    ["Partitions", (one.partitions ?? []).join(", ")],
    ["Copied by", (one.copied_by ?? []).join(", ")],
    ["Policy", one.policy || "none"],
    ["Operator policy", one.operator_policy || "none"],
    ["Effective definition", tableText(one.effective_policy_definition)],
    ["Virtual host", one.vhost],
    ["Node", one.node],
    [
      "Exclusive owner",
      one.owner_pid_details?.name
        ? { text: one.owner_pid_details.name, href: link("connections", one.owner_pid_details.name) }
        : "",
    ],
  ];
}

function contentFacts(one) {
  const both = (amount, size) =>
    amount === undefined ? "" : `${count(amount)}${size === undefined ? "" : `  (${bytes(size)})`}`;
  return [
    ["Total", both(one.messages, one.message_bytes)],
    ["Ready", both(one.messages_ready, one.message_bytes_ready)],
    ["Unacked", both(one.messages_unacknowledged, one.message_bytes_unacknowledged)],
    ["In memory", both(one.messages_ram, one.message_bytes_ram)],
    ["Persistent", both(one.messages_persistent, one.message_bytes_persistent)],
    ["Paged out", both(one.messages_paged_out, one.message_bytes_paged_out)],
    ["Memory", bytes(one.memory)],
    ["Consumers", count(one.consumers)],
    ["Consumer capacity", Number.isFinite(one.consumer_capacity) ? `${count(one.consumer_capacity * 100)} %` : ""],
    ["Oldest message", one.head_message_timestamp ? moment(one.head_message_timestamp * 1000) : ""],
    ["Idle for", one.idle_since ? duration(Date.now() - Date.parse(one.idle_since)) : ""],
  ];
}

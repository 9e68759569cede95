// Get messages of a queue.

import { path, post } from "../app/api.js";
import { bytes, count, exchangeName, tableText, yesNo } from "../app/format.js";
import { h } from "../parts/dom.js";
import { Facts } from "../parts/facts.js";
import { choiceField, numberField } from "../parts/fields.js";
import { form } from "../parts/form.js";

const TRUNCATE_BYTES = 50_000;
const MODES = [
  ["ack_requeue_true", "Nack, requeue: messages stay, marked as redelivered"],
  ["ack_requeue_false", "Ack: messages are removed"],
  ["reject_requeue_true", "Reject, requeue: messages stay, marked as redelivered"],
  ["reject_requeue_false", "Reject: messages are dropped or dead-lettered"],
];
const QUESTIONS = {
  ack_requeue_false: {
    title: "Take messages out?",
    text: "Messages that are acknowledged leave the queue for good.",
    action: "Take them",
  },
  reject_requeue_false: {
    title: "Reject messages?",
    text: "They leave the queue; without a dead letter exchange they are gone.",
    action: "Reject them",
  },
};

export function getSection(vhost, queue) {
  const messages = h("ol", { class: "messages" });
  const getForm = form({
    label: "Get messages",
    fields: [
      choiceField("ackmode", "Ack mode", MODES),
      [
        numberField("count", "How many", { value: 1, required: true, min: 1 }),
        choiceField("encoding", "Show payloads", [
          ["auto", "As text where it is text"],
          ["base64", "As Base64"],
        ]),
      ],
    ],
    submit: "Get messages",
    keep: true,
    ask: ({ ackmode }) => QUESTIONS[ackmode],
    send: async ({ ackmode, count: wanted, encoding }) => {
      const got = await post(path("queues", vhost, queue, "get"), {
        ackmode,
        count: wanted,
        encoding,
        truncate: TRUNCATE_BYTES,
      });
      messages.replaceChildren(...got.map(oneMessage));
      return got.length ? `${count(got.length)} ${got.length === 1 ? "message" : "messages"}.` : "The queue is empty.";
    },
  });
  return h("div", {}, getForm, messages);
}

function oneMessage(message) {
  const facts = new Facts();
  const { headers, ...properties } = Array.isArray(message.properties) ? {} : message.properties;
  const cut = message.payload_bytes > TRUNCATE_BYTES ? `, the first ${bytes(TRUNCATE_BYTES)} shown` : "";
  facts.update([
    ["Exchange", exchangeName(message.exchange)],
    ["Routing key", message.routing_key],
    ["Redelivered", yesNo(message.redelivered)],
    ["Properties", tableText(properties)],
    ["Headers", tableText(headers)],
    [
      "Payload",
      `${bytes(message.payload_bytes)}, ${message.payload_encoding === "string" ? "text" : message.payload_encoding}${cut}`,
    ],
    ["Messages remaining", count(message.message_count)],
  ]);
  return h(
    "li",
    {},
    facts.element,
    h("pre", { class: "body", tabindex: "0", role: "region", "aria-label": "Payload" }, message.payload),
  );
}

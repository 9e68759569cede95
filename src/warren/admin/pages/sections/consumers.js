// The consumers of a queue or of a channel.

import { count, tableText, yesNo } from "../app/format.js";
import { link } from "../app/router.js";
import { Table } from "../parts/table.js";

const STATUS = {
  up: ["active", "good"],
  single_active: ["single active", "good"],
  waiting: ["waiting", ""],
  suspected_down: ["suspected down", "bad"],
};

/** `shown` is the column: "channel" or "queue". */
export function consumerTable(shown) {
  const end =
    shown === "channel"
      ? {
          key: "channel",
          title: "Channel",
          cell: ({ channel_details: channel }) =>
            channel?.name ? { text: channel.name, href: link("channels", channel.name) } : "",
        }
      : {
          key: "queue",
          title: "Queue",
          cell: ({ queue }) => ({ text: queue.name, href: link("queues", queue.vhost, queue.name) }),
        };
  return new Table({
    caption: "Consumers",
    columns: [
      end,
      { key: "tag", title: "Tag", cell: (row) => ({ text: row.consumer_tag, class: "code" }) },
      { key: "ack", title: "Acks", cell: (row) => yesNo(row.ack_required) },
      { key: "exclusive", title: "Exclusive", cell: (row) => yesNo(row.exclusive) },
      {
        key: "prefetch",
        title: "Prefetch",
        number: true,
        cell: (row) => (row.prefetch_count ? count(row.prefetch_count) : "no limit"),
      },
      { key: "status", title: "State", cell: (row) => status(row.activity_status) },
      { key: "arguments", title: "Arguments", wrap: true, cell: (row) => tableText(row.arguments) },
    ],
    keyOf: (row) => JSON.stringify([row.channel_details?.name, row.consumer_tag, row.queue?.name]),
    empty: "No consumers.",
  });
}

function status(word) {
  if (!word) return "";
  const [text, kind] = STATUS[word] ?? [word, ""];
  return { badge: text, kind };
}

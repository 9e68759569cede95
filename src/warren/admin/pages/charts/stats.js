// Message statistics with their labels, and charts that several pages show.

import { byteRate, compact, count, rate } from "../app/format.js";
import { remember } from "../app/settings.js";
import { Chart } from "./chart.js";
import { h } from "../parts/dom.js";
import { RANGES, chosenRange, lengthPoints, ratePoints } from "./samples.js";

/** The rates of all messages that a channel or a node sees. */
export const MESSAGE_RATES = [
  ["publish", "Published"],
  ["confirm", "Confirmed"],
  ["deliver_get", "Delivered"],
  ["ack", "Acked"],
  ["redeliver", "Redelivered"],
  ["return_unroutable", "Returned"],
];
const LENGTHS = [
  ["messages", "Total"],
  ["messages_ready", "Ready"],
  ["messages_unacknowledged", "Unacked"],
];
const WORDS = {
  publish: "Publish",
  publish_in: "Publish (in)",
  publish_out: "Publish (out)",
  confirm: "Publisher confirm",
  return_unroutable: "Unroutable (return)",
  drop_unroutable: "Unroutable (drop)",
  deliver: "Deliver (manual ack)",
  deliver_no_ack: "Deliver (auto ack)",
  get: "Get (manual ack)",
  get_no_ack: "Get (auto ack)",
  get_empty: "Get (empty)",
  deliver_get: "Deliver / get",
  redeliver: "Redelivered",
  ack: "Consumer ack",
};

/** Chart of queued messages; `update` takes an object with `messages_details` and the like. */
export function lengthChart(title) {
  const chart = new Chart({
    title,
    series: LENGTHS,
    show: (value) => (Number.isFinite(value) ? compact(value) : ""),
    ticks: { whole: true },
  });
  const update = (source) =>
    chart.update(
      Object.fromEntries(LENGTHS.map(([key]) => [key, lengthPoints(source?.[`${key}_details`])])),
      Object.fromEntries(LENGTHS.map(([key]) => [key, source?.[key]])),
    );
  return { element: chart.element, update };
}

/** Chart of rates; `series` are `[key, label]`, `update` takes an object with `KEY_details`. */
export function rateChart(title, series, { inBytes = false } = {}) {
  const chart = new Chart({ title, series, show: inBytes ? byteRate : rate, ticks: { binary: inBytes } });
  const update = (source) =>
    chart.update(
      Object.fromEntries(series.map(([key]) => [key, ratePoints(source?.[`${key}_details`])])),
      Object.fromEntries(series.map(([key]) => [key, source?.[`${key}_details`]?.rate])),
    );
  return { element: chart.element, update };
}

/** The time range of a page's charts. */
export function rangeChooser() {
  const select = h(
    "select",
    {},
    RANGES.map(([age, , text]) => h("option", { value: String(age) }, text)),
  );
  select.value = String(chosenRange()[0]);
  select.addEventListener("change", () => {
    remember("range", Number(select.value));
    select.dispatchEvent(new CustomEvent("refresh", { bubbles: true }));
  });
  return h("label", { class: "row small" }, h("span", { class: "soft" }, "Charts show"), h("span", {}, select));
}

/** Every statistic as rate and total. */
export function figureFacts(stats) {
  return Object.entries(WORDS)
    .filter(([key]) => stats?.[key] !== undefined)
    .map(([key, words]) => [words, `${rate(stats[`${key}_details`]?.rate)}  (${count(stats[key])} so far)`]);
}

export const rateOf = (row, key) => rate(row.message_stats?.[`${key}_details`]?.rate);

/** A column of a list with a count. */
export const countColumn = (key, title, rest = {}) => ({
  key,
  title,
  sort: key,
  number: true,
  fields: [key],
  cell: (row) => count(row[key]),
  ...rest,
});

/** A column of a list with a message rate. */
export const rateColumn = (key, title, rest = {}) => ({
  key,
  title,
  sort: `message_stats.${key}_details.rate`,
  number: true,
  fields: [`message_stats.${key}_details.rate`],
  cell: (row) => rateOf(row, key),
  ...rest,
});

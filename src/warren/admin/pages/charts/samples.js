// From samples of the API to points of a chart, and the time ranges.
//
// Samples of counters are newest first; a chart shows the rate between two of them. Lengths are shown unchanged.

import { setting } from "../app/settings.js";

/** Range in seconds, seconds between samples, label. */
export const RANGES = [
  [60, 5, "Last minute"],
  [600, 5, "Last ten minutes"],
  [3600, 60, "Last hour"],
  [28_800, 600, "Last eight hours"],
  [86_400, 1800, "Last day"],
];

export function chosenRange() {
  const age = setting("range", 60);
  return RANGES.find(([seconds]) => seconds === age) ?? RANGES[0];
}

/** The query that asks for samples of these kinds: `lengths`, `msg_rates`, `data_rates`, `node_stats`. */
export function sampleQuery(...kinds) {
  const [age, step] = chosenRange();
  return Object.fromEntries(
    kinds.flatMap((kind) => [
      [`${kind}_age`, age],
      [`${kind}_incr`, step],
    ]),
  );
}

/** Points `[time, value]`, oldest first. */
export function lengthPoints(details) {
  return (details?.samples ?? []).map(({ timestamp, sample }) => [timestamp, sample]).reverse();
}

export function ratePoints(details) {
  const counted = lengthPoints(details);
  return counted.slice(1).map(([time, value], at) => {
    const [before, start] = counted[at];
    // the counter was reset
    return [time, time > before ? (Math.max(0, value - start) * 1000) / (time - before) : 0];
  });
}

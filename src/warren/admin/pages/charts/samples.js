// From the samples of the API to the points of a chart, and the ranges of time one may look at.
//
// The API keeps counters that only grow, newest first: the rate between two of them is what a chart shows. Lengths are
// shown as they are.

import { setting } from "../app/settings.js";

/** Seconds back, seconds between samples, and the words. */
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
    // a counter that fell began anew
    return [time, time > before ? (Math.max(0, value - start) * 1000) / (time - before) : 0];
  });
}

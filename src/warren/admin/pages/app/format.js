// Numbers, times and tables as people read them.

const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const COMPACT = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const count = (value) => (Number.isFinite(value) ? WHOLE.format(value) : "");
export const compact = (value) => (Math.abs(value) < 10_000 ? WHOLE.format(value) : COMPACT.format(value));
export const clock = (ms) => CLOCK.format(ms);
export const moment = (ms) => (Number.isFinite(ms) ? MOMENT.format(ms) : "");

export function rate(value) {
  if (!Number.isFinite(value)) return "";
  return `${value !== 0 && Math.abs(value) < 10 ? TENTHS.format(value) : WHOLE.format(value)}/s`;
}

export function bytes(value) {
  if (!Number.isFinite(value)) return "";
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? WHOLE.format(size) : TENTHS.format(size)} ${UNITS[unit]}`;
}

export const byteRate = (value) => (Number.isFinite(value) ? `${bytes(value)}/s` : "");

export function duration(ms) {
  if (!Number.isFinite(ms)) return "";
  const seconds = Math.floor(ms / 1000);
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(" ");
}

export const yesNo = (value) => (value ? "yes" : "no");

/** A table value as text; strings are unchanged. */
export function valueText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A table of arguments or properties, one line per entry. */
export function tableText(table) {
  return Object.entries(table ?? {})
    .map(([key, value]) => `${key}: ${valueText(value)}`)
    .join("\n");
}

/** With a capital at the beginning and a full stop at the end. */
export function sentence(text) {
  const trimmed = text.trim();
  if (!trimmed) return "";
  const start = trimmed[0].toUpperCase() + trimmed.slice(1);
  return /[.!?…”]$/.test(start) ? start : `${start}.`;
}

export const exchangeName = (name) => (name === "" ? "(default)" : name);

/** One URI or a list, as a list. */
export const urisOf = (uri) => (Array.isArray(uri) ? uri : [uri]);

/** URIs without users and passwords. */
export const shownUris = (uri) =>
  urisOf(uri)
    .map((one) => one.replace(/\/\/[^/]*@/, "//"))
    .join(" ");

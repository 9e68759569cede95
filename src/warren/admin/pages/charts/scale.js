// The grid of a chart: round numbers on one axis, round times on the other.

const TIME_STEPS_S = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600];

/** About `wanted` ticks from 0 to at least `max`; `binary` for bytes, `whole` for integers. */
export function valueTicks(max, wanted, { binary = false, whole = false } = {}) {
  const step = valueStep(Math.max(max, whole ? 1 : Number.MIN_VALUE) / wanted, binary);
  const size = whole ? Math.max(1, step) : step;
  return Array.from({ length: Math.max(1, Math.ceil(max / size)) + 1 }, (_, at) => at * size);
}

function valueStep(rough, binary) {
  if (rough <= Number.MIN_VALUE) return 1;
  if (binary) return 2 ** Math.max(0, Math.ceil(Math.log2(rough)));
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= rough);
}

/** At most `wanted` round local times between two moments, and whether to show seconds. */
export function timeTicks(start, end, wanted) {
  const step = 1000 * (TIME_STEPS_S.find((size) => (end - start) / (size * 1000) <= wanted) ?? TIME_STEPS_S.at(-1));
  const offset = new Date(end).getTimezoneOffset() * 60_000;
  const ticks = [];
  for (let at = Math.ceil((start - offset) / step) * step + offset; at <= end; at += step) ticks.push(at);
  return { ticks, seconds: step < 60_000 };
}

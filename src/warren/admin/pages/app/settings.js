// Settings in this browser: theme, update interval, columns, range of charts, virtual host. Without storage a setting
// lasts as long as the page.
// Not here: credentials (session.js).

const PREFIX = "warren.";
const chosen = new Map();

export function setting(name, fallback) {
  if (!chosen.has(name)) chosen.set(name, stored(name));
  return chosen.get(name) ?? fallback;
}

export function remember(name, value) {
  chosen.set(name, value);
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // storage is full or forbidden: kept in memory only
  }
}

/** The virtual host that lists show, or "" for all. */
export const chosenVhost = () => setting("vhost", "");

function stored(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name)) ?? undefined;
  } catch {
    return undefined;
  }
}

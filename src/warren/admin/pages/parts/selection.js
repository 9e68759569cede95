// Filter, sort and page a list in the browser, for lists that the API cannot page.

/** The value of `a.b.c` in a row. */
export function fieldOf(row, field) {
  return field.split(".").reduce((value, name) => value?.[name], row);
}

/** In the format of an API page. */
export function selectPage(rows, { name = "", use_regex, sort, sort_reverse, page, page_size }, named) {
  const wanted = matching(name, use_regex === "true");
  const kept = rows.filter((row) => wanted(named(row)));
  if (sort) kept.sort((one, other) => compare(fieldOf(one, sort), fieldOf(other, sort)));
  if (sort && sort_reverse === "true") kept.reverse();
  const pages = Math.max(1, Math.ceil(kept.length / page_size));
  const shown = Math.min(page, pages);
  const items = kept.slice((shown - 1) * page_size, shown * page_size);
  return { items, page: shown, page_count: pages, filtered_count: kept.length, total_count: rows.length };
}

function matching(text, asRegex) {
  if (!text) return () => true;
  if (!asRegex) return (name) => name.toLowerCase().includes(text.toLowerCase());
  const pattern = new RegExp(text, "i");
  return (name) => pattern.test(name);
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one ?? "").localeCompare(String(other ?? ""));
}

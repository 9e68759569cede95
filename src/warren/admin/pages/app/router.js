// The current page: the address after `#`. Names are escaped one by one, so that any name can be linked to.
//
//   #/queues/%2F/a%2Fb?sort=messages   ->   ["queues", "/", "a/b"], {sort: "messages"}

/** The address of a page. */
export function link(...names) {
  return `#/${names.map(encodeURIComponent).join("/")}`;
}

export function whereWeAre(hash = location.hash) {
  const [way, query = ""] = split(hash.replace(/^#?\/?/, ""));
  return {
    names: way === "" ? [] : way.split("/").map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** Keep the state of a list in the address, for the back button, without a new history entry. */
export function keepQuery(query) {
  const [way] = split(location.hash);
  const text = new URLSearchParams(
    Object.entries(query).filter(([, value]) => value !== "" && value !== undefined),
  ).toString();
  history.replaceState(null, "", (way || "#/") + (text ? `?${text}` : ""));
}

function split(hash) {
  const mark = hash.indexOf("?");
  return mark < 0 ? [hash] : [hash.slice(0, mark), hash.slice(mark + 1)];
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // a half percent sign, typed by hand
  }
}

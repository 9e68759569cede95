// The rules of accessibility.py: one function that runs in the page and answers what breaks them.
() => {
  const NAMED =
    "input, select, textarea, button, a[href], summary, [role=slider], [role=region], form, nav, dialog, section";
  const REFERENCES = ["aria-labelledby", "aria-describedby", "aria-controls", "for", "list"];
  const TARGET_PX = 24;

  const broken = new Set();
  const tell = (rule, element) => broken.add(`${rule}: ${element.outerHTML.slice(0, 160)}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const seen = (element) => element.checkVisibility({ visibilityProperty: true });
  const text = (element) => (element?.textContent ?? "").trim();

  names();
  headings();
  references();
  tables();
  landmarks();
  targets();
  contrasts();
  return [...broken];

  function names() {
    for (const element of all(NAMED)) if (!named(element) && !element.hidden) tell("has no name", element);
    for (const image of all("img")) if (!image.hasAttribute("alt")) tell("image without alt", image);
  }

  function named(element) {
    if ((element.getAttribute("aria-label") ?? "").trim()) return true;
    const by = element.getAttribute("aria-labelledby");
    if (by) return by.split(/\s+/).every((id) => text(document.getElementById(id)));
    if ([...(element.labels ?? [])].some((label) => text(label))) return true;
    return element.matches("input, select, textarea") ? false : Boolean(text(element));
  }

  function headings() {
    const found = all("main h1, main h2, main h3, main h4");
    const levels = found.map(({ tagName }) => Number(tagName[1]));
    if (levels[0] !== 1 || levels.lastIndexOf(1) !== 0) broken.add("the page does not begin with its one h1");
    levels.forEach((level, at) => {
      if (at && level > levels[at - 1] + 1) tell("heading skips a level", found[at]);
    });
  }

  function references() {
    const ids = all("[id]").map(({ id }) => id);
    for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) broken.add(`id used twice: ${id}`);
    for (const name of REFERENCES) {
      for (const element of all(`[${name}]`)) {
        const missing = element.getAttribute(name).split(/\s+/).filter((id) => !document.getElementById(id));
        if (missing.length) tell(`${name} leads nowhere`, element);
      }
    }
  }

  function tables() {
    for (const table of all("table")) if (!text(table.caption)) tell("table without caption", table);
    for (const cell of all("th")) if (!["row", "col"].includes(cell.scope)) tell("th without scope", cell);
    for (const cell of all("thead th")) if (!text(cell)) tell("column without a heading", cell);
  }

  function landmarks() {
    if (all("main").length !== 1) broken.add("not exactly one main");
    if (!document.documentElement.lang || !document.title) broken.add("no language or no title");
  }

  function targets() {
    for (const element of all("button:not(.sort), summary, select, textarea, input:not([type=checkbox])")) {
      const { width, height } = element.getBoundingClientRect();
      const small = width < TARGET_PX || height < TARGET_PX;
      if (seen(element) && width && small) tell(`target of ${Math.round(width)} by ${Math.round(height)}`, element);
    }
  }

  function contrasts() {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const judged = new Set();
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.textContent.trim() || judged.has(element) || !seen(element)) continue;
      judged.add(element);
      if (!element.closest("button:disabled, .unseen, option, noscript, script")) judgeContrast(element);
    }
  }

  function judgeContrast(element) {
    const style = getComputedStyle(element);
    const size = Number.parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const drawn = element.closest("svg");
    const back = ground(drawn?.parentElement ?? element);
    const front = over(colour(drawn ? style.fill : style.color), back);
    const [darker, lighter] = [light(front), light(back)].sort((one, other) => one - other);
    const ratio = (lighter + 0.05) / (darker + 0.05);
    if (ratio < (large ? 3 : 4.5)) tell(`contrast of ${ratio.toFixed(2)}`, element);
  }

  /** What lies behind an element, all half-transparent layers laid over one another. */
  function ground(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const layer = colour(getComputedStyle(at).backgroundColor);
      if (layer.alpha > 0) layers.push(layer);
      if (layer.alpha === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), { red: 255, green: 255, blue: 255 });
  }

  function over(top, below) {
    const mixed = (key) => top[key] * top.alpha + below[key] * (1 - top.alpha);
    return { red: mixed("red"), green: mixed("green"), blue: mixed("blue") };
  }

  /** Any colour of CSS, as the browser paints it. */
  function colour(value) {
    const painter = new OffscreenCanvas(1, 1).getContext("2d");
    painter.fillStyle = value;
    painter.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = painter.getImageData(0, 0, 1, 1).data;
    return { red, green, blue, alpha: alpha / 255 };
  }

  /** Relative luminance. */
  function light({ red, green, blue }) {
    const [r, g, b] = [red, green, blue].map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function linear(part) {
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }
}

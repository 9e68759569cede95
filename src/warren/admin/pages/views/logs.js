// Log levels by category, changed at run time.

import { get, put } from "../app/api.js";
import { h, panel } from "../parts/dom.js";
import { choiceField } from "../parts/fields.js";
import { form } from "../parts/form.js";

const WHERE = "warren/log-levels";

export default function logs() {
  const place = h("div");
  const known = new Map(); // the node's levels by category, as far as we heard
  let fields = new Map();

  async function refresh(signal) {
    const { levels, categories } = await get(WHERE, {}, signal);
    if (fields.size === 0) {
      const choices = levels.map((level) => [level, level]);
      fields = new Map(Object.keys(categories).map((name) => [name, choiceField(name, name, choices)]));
      place.replaceChildren(levelForm([...fields.values()], known));
    }
    for (const [name, level] of Object.entries(categories)) {
      // an update does not undo a selection in progress
      if (known.get(name) !== level) fields.get(name).input.value = level;
      known.set(name, level);
    }
  }

  const lead = h(
    "p",
    { class: "lead" },
    "From debug, the most verbose, to none. A change lasts until the node stops; the configuration file is not changed.",
  );
  return { title: "Log levels", content: [lead, panel("Categories", place)], refresh };
}

function levelForm(fields, known) {
  return form({
    label: "Log levels",
    fields: [fields],
    submit: "Save",
    keep: true,
    send: async (values) => {
      const changed = Object.entries(values).filter(([name, level]) => known.get(name) !== level);
      if (changed.length === 0) return "Nothing was changed.";
      await put(WHERE, { categories: Object.fromEntries(changed) });
      return "Changed.";
    },
  });
}

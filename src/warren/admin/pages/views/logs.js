// How much the node writes to its log, category by category, changed while it runs.

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
      // what somebody is choosing is not undone by an update
      if (known.get(name) !== level) fields.get(name).input.value = level;
      known.set(name, level);
    }
  }

  const lead = h(
    "p",
    { class: "lead" },
    "From debug, which tells most, down to none. A change holds until the node is stopped; the configuration file is not touched.",
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

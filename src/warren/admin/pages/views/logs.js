// How much the node writes to its log, category by category, changed while it runs.

import { get, put } from "../app/api.js";
import { h, panel } from "../parts/dom.js";
import { choiceField } from "../parts/fields.js";
import { form } from "../parts/form.js";

const WHERE = "warren/log-levels";

export default function logs() {
  const place = h("div");
  let shown = "";

  async function refresh(signal) {
    const answer = await get(WHERE, {}, signal);
    if (JSON.stringify(answer) === shown) return;
    shown = JSON.stringify(answer);
    place.replaceChildren(levelForm(answer));
  }

  const lead = h(
    "p",
    { class: "lead" },
    "From debug, which tells most, down to none. A change holds until the node is stopped; the configuration file is not touched.",
  );
  return { title: "Log levels", content: [lead, panel("Categories", place)], refresh };
}

function levelForm({ levels, categories }) {
  const choices = levels.map((level) => [level, level]);
  const fields = Object.entries(categories).map(([category, level]) =>
    choiceField(category, category, choices, { value: level }),
  );
  return form({
    label: "Log levels",
    fields: [fields],
    submit: "Save",
    keep: true,
    send: async (values) => {
      const changed = Object.fromEntries(
        Object.entries(values).filter(([category, level]) => categories[category] !== level),
      );
      if (Object.keys(changed).length === 0) return "Nothing was changed.";
      await put(WHERE, { categories: changed });
      Object.assign(categories, changed);
      return "Changed.";
    },
  });
}

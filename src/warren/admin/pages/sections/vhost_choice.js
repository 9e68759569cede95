// The field for the virtual host of a new object. The node provides its choices.

import { get } from "../app/api.js";
import { chosenVhost } from "../app/settings.js";
import { choiceField } from "../parts/fields.js";
import { h } from "../parts/dom.js";

/** A choice field, with `learn(signal)` to be called with each refresh. */
export function vhostField(label = "Virtual host") {
  const field = choiceField("vhost", label, [["/", "/"]]);
  let known = "";
  field.learn = async (signal) => {
    const names = (await get("vhosts", { columns: "name" }, signal)).map((vhost) => vhost.name);
    if (known === JSON.stringify(names)) return;
    known = JSON.stringify(names);
    const before = field.input.childElementCount > 1 ? field.input.value : chosenVhost() || "/";
    field.input.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    field.input.value = names.includes(before) ? before : names[0];
  };
  return field;
}

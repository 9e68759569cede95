// Definitions: export and import.

import { ask, get, path } from "../app/api.js";
import { count } from "../app/format.js";
import { h, panel } from "../parts/dom.js";
import { choiceField, fileField } from "../parts/fields.js";
import { FieldError, form } from "../parts/form.js";

const EVERYTHING = "";
const KINDS = ["vhosts", "users", "permissions", "policies", "exchanges", "queues", "bindings"];

export default function definitions() {
  const source = choiceField("from", "Of", [[EVERYTHING, "Everything"]]);
  const target = choiceField("into", "Into", [[EVERYTHING, "As in the file"]]);

  const exporting = form({
    label: "Export definitions",
    fields: [source],
    submit: "Download",
    keep: true,
    send: async ({ from }) => {
      const all = await get(from === EVERYTHING ? "definitions" : path("definitions", JSON.parse(from)));
      save("definitions.json", JSON.stringify(all, null, 2));
      return "Saved as definitions.json.";
    },
  });
  const importing = form({
    label: "Import definitions",
    submit: "Import",
    fields: [
      fileField("file", "File", {
        accept: ".json,application/json",
        hint: "As exported here or by RabbitMQ. It is imported completely or not at all.",
      }),
      target,
    ],
    ask: ({ file }) => ({
      title: "Import definitions?",
      text: `“${file.name}” changes definitions on this node. Objects that are not in the file stay.`,
      action: "Import",
    }),
    send: async ({ file, into }) => {
      const text = await file.text();
      const content = parsed(text);
      await ask("POST", into === EVERYTHING ? "definitions" : path("definitions", JSON.parse(into)), { body: text });
      return `Imported: ${summary(content)}.`;
    },
  });

  async function refresh(signal) {
    const vhosts = (await get("vhosts", { columns: "name" }, signal)).map((vhost) => vhost.name);
    for (const field of [source, target]) offer(field.input, vhosts);
  }

  const lead = h(
    "p",
    { class: "lead" },
    "Virtual hosts, users, permissions, policies, exchanges, queues and bindings. Messages are not included.",
  );
  return {
    title: "Definitions",
    content: [lead, h("div", { class: "side-by-side" }, panel("Export", exporting), panel("Import", importing))],
    refresh,
  };
}

/** The virtual hosts as choices; names are JSON, so that none equals the choice of everything. */
function offer(select, vhosts) {
  const chosen = select.value;
  const names = vhosts.map((name) => JSON.stringify(name));
  if (
    names.join() ===
    [...select.options]
      .slice(1)
      .map((option) => option.value)
      .join()
  )
    return;
  select.replaceChildren(
    select.options[0],
    ...vhosts.map((name) => h("option", { value: JSON.stringify(name) }, `The virtual host ${name}`)),
  );
  select.value = names.includes(chosen) ? chosen : EVERYTHING;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (trouble) {
    throw new FieldError(`The file is not JSON: ${trouble.message}.`, null);
  }
}

function summary(content) {
  const parts = KINDS.filter((kind) => content[kind]?.length).map(
    (kind) =>
      `${count(content[kind].length)} ${content[kind].length === 1 ? kind.replace(/ies$/, "y").replace(/s$/, "") : kind}`,
  );
  return parts.join(", ") || "nothing";
}

function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  h("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}

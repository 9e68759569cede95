// Shovels: their state and their definitions.

import { get, path, put, remove } from "../app/api.js";
import { count, shownUris, tableText, urisOf } from "../app/format.js";
import { may } from "../app/session.js";
import { chosenVhost } from "../app/settings.js";
import { h, panel } from "../parts/dom.js";
import { areaField, choiceField, textField } from "../parts/fields.js";
import { actFromTable, answerPlace, FieldError, form } from "../parts/form.js";
import { mapField } from "../parts/map_field.js";
import { Table } from "../parts/table.js";
import { editableTable } from "../sections/editable_table.js";
import { SHOVEL_KEYS } from "../sections/known_arguments.js";
import { vhostField } from "../sections/vhost_choice.js";

const ENDS = ["src", "dest"];
const URI_HINT =
  "amqp://user:password@host:5672/vhost, one per line, all for the same broker. amqp:// alone is this broker.";

export default function shovels() {
  const parts = [may("monitoring") && standingPart(), may("policymaker") && definitionsPart()].filter(Boolean);
  const lead = h(
    "p",
    { class: "lead" },
    "A shovel consumes messages from a queue or an exchange of this or another broker, publishes them to a destination, and acks them when they have arrived.",
  );
  return {
    title: "Shovels",
    content: [lead, ...parts.flatMap((part) => part.content)],
    refresh: (signal) => Promise.all(parts.map((part) => part.refresh(signal))),
  };
}

const placeOf = (...names) => path(...names, ...(chosenVhost() ? [chosenVhost()] : []));

function standingPart() {
  const answer = answerPlace();
  const table = new Table({
    caption: "Shovels",
    keyOf: (row) => JSON.stringify([row.vhost, row.name]),
    empty: "None.",
    columns: [
      { key: "name", title: "Name", cell: (row) => row.name },
      { key: "vhost", title: "Virtual host", cell: (row) => row.vhost },
      { key: "state", title: "State", wrap: true, cell: shovelState },
      { key: "source", title: "From", wrap: true, cell: (row) => end(row, "src") },
      { key: "destination", title: "To", wrap: true, cell: (row) => end(row, "dest") },
      { key: "forwarded", title: "Carried", number: true, cell: (row) => count(row.forwarded) },
      { key: "uncertain", title: "Uncertain", number: true, cell: (row) => count(row.uncertain) },
      { key: "since", title: "Since", cell: (row) => row.timestamp },
      { key: "node", title: "Node", cell: (row) => row.node },
      {
        key: "actions",
        title: "Actions",
        cell: (row) => ({
          button: "Restart",
          label: `Restart ${row.name}`,
          act: (current, button) => restart(current, button, answer.told),
        }),
      },
    ],
  });
  const refresh = async (signal) => table.update(await get(placeOf("shovels"), {}, signal));
  return { content: [panel("Shovels", table.element, answer.element)], refresh };
}

function shovelState({ state, reason }) {
  const kind = { running: "good", starting: "warn" }[state] ?? "bad";
  return [{ badge: state, kind }, reason ?? ""];
}

/** The source or destination of a running shovel. */
function end(row, side) {
  const [queue, exchange, key] = ["queue", "exchange", "exchange_key"].map((name) => row[`${side}_${name}`]);
  const what = queue !== undefined ? `queue ${queue}` : exchange !== undefined ? `exchange ${exchange}` : "";
  return [what, key && `key ${key}`, row[`${side}_uri`]].filter(Boolean).join(", ");
}

function restart(row, button, told) {
  const act = async () => {
    await remove(path("shovels", "vhost", row.vhost, row.name, "restart"));
    return `“${row.name}” restarts.`;
  };
  return actFromTable(button, { act, told });
}

function definitionsPart() {
  return editableTable({
    title: "Definitions",
    word: "shovel",
    kind: ["parameters", "shovel"],
    columns: [
      { key: "source", title: "From", wrap: true, cell: (row) => definedEnd(row.value, "src") },
      { key: "destination", title: "To", wrap: true, cell: (row) => definedEnd(row.value, "dest") },
      { key: "rest", title: "Settings", wrap: true, cell: (row) => tableText(settingsOf(row.value)) },
    ],
    edit: shovelForm(),
    warning: (row) => `“${row.name}” of “${row.vhost}” is stopped and deleted. Messages and queues stay.`,
  });
}

function definedEnd(value, side) {
  const row = { [`${side}_uri`]: shownUris(value[`${side}-uri`]) };
  for (const name of ["queue", "exchange", "exchange-key"])
    if (`${side}-${name}` in value) row[`${side}_${name.replace("-", "_")}`] = value[`${side}-${name}`];
  return end(row, side);
}

/** The other fields of a definition. */
function settingsOf(value) {
  const ends = ENDS.flatMap((side) =>
    ["uri", "queue", "exchange", "exchange-key", "protocol"].map((name) => `${side}-${name}`),
  );
  return Object.fromEntries(Object.entries(value).filter(([name]) => !ends.includes(name)));
}

function shovelForm() {
  const vhost = vhostField();
  const name = textField("name", "Name", { required: true });
  const source = endFields("src", "Source", [
    ["queue", "A queue"],
    ["exchange", "An exchange"],
  ]);
  const destination = endFields("dest", "Destination", [
    ["queue", "A queue"],
    ["exchange", "An exchange"],
    ["", "Exchange and key of each message"],
  ]);
  const settings = mapField("settings", "Settings", SHOVEL_KEYS);
  const element = form({
    label: "Add or change a shovel",
    fields: [[vhost, name], ...source.fields, ...destination.fields, settings],
    submit: "Save",
    send: async (values) => {
      const value = { ...values.settings, ...source.told(values), ...destination.told(values) };
      await put(path("parameters", "shovel", values.vhost, values.name), { value });
      return `“${values.name}” is defined.`;
    },
  });
  const load = (row, fold) => {
    vhost.input.value = row.vhost;
    name.input.value = row.name;
    source.show(row.value);
    destination.show(row.value);
    settings.show(settingsOf(row.value));
    fold.open = true;
    source.first.focus();
  };
  return { element, vhost, load };
}

/** The form fields of source or destination, and the fields of a definition they set. */
function endFields(side, title, kinds) {
  const uris = areaField(`${side}-uri`, `${title}: URIs`, { hint: URI_HINT });
  const kind = choiceField(`${side}-kind`, `${title} is`, kinds);
  const name = textField(`${side}-name`, `${title}: name`, { hint: "A missing queue is declared as durable." });
  const key = textField(`${side}-key`, `${title}: routing key`, { hint: "For an exchange." });

  function told(values) {
    const given = values[`${side}-uri`].split(/\s+/).filter(Boolean);
    if (given.length === 0) throw new FieldError(`${title}: URIs are missing.`, uris.input);
    const what = values[`${side}-kind`];
    if (what && !values[`${side}-name`]) throw new FieldError(`${title}: name is missing.`, name.input);
    return {
      [`${side}-uri`]: given.length === 1 ? given[0] : given,
      ...(what ? { [`${side}-${what}`]: values[`${side}-name`] } : {}),
      ...(what !== "queue" && values[`${side}-key`] ? { [`${side}-exchange-key`]: values[`${side}-key`] } : {}),
    };
  }

  function show(value) {
    uris.input.value = urisOf(value[`${side}-uri`]).join("\n");
    const what = kinds.map(([each]) => each).find((each) => `${side}-${each}` in value) ?? "";
    kind.input.value = what;
    name.input.value = what ? value[`${side}-${what}`] : "";
    key.input.value = value[`${side}-exchange-key`] ?? "";
  }

  return { fields: [uris, [kind, name, key]], told, show, first: uris.input };
}

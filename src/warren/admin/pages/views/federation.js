// Federation: links of exchanges and queues, and their upstreams.

import { get, path, put, remove } from "../app/api.js";
import { count, shownUris, tableText, urisOf } from "../app/format.js";
import { may } from "../app/session.js";
import { chosenVhost } from "../app/settings.js";
import { h, panel } from "../parts/dom.js";
import { areaField, textField } from "../parts/fields.js";
import { actFromTable, answerPlace, FieldError, form } from "../parts/form.js";
import { mapField } from "../parts/map_field.js";
import { Table } from "../parts/table.js";
import { editableTable } from "../sections/editable_table.js";
import { UPSTREAM_KEYS } from "../sections/known_arguments.js";
import { vhostField } from "../sections/vhost_choice.js";

const UPSTREAM = "federation-upstream";

export default function federation() {
  const parts = [may("monitoring") && linksPart(), may("policymaker") && upstreamsPart()].filter(Boolean);
  const lead = h(
    "p",
    { class: "lead" },
    "An exchange or a queue receives messages from another broker if a policy names an upstream for it: federation-upstream for one, federation-upstream-set for several; the set all has every upstream.",
  );
  return {
    title: "Federation",
    content: [lead, ...parts.flatMap((part) => part.content)],
    refresh: (signal) => Promise.all(parts.map((part) => part.refresh(signal))),
  };
}

function linksPart() {
  const answer = answerPlace();
  const table = new Table({
    caption: "Links",
    keyOf: (row) => JSON.stringify([row.node, row.id]),
    empty: "No links: no policy names an upstream for an existing exchange or queue.",
    columns: [
      { key: "name", title: "Name", cell: (row) => row.exchange ?? row.queue },
      { key: "type", title: "Type", cell: (row) => row.type },
      { key: "vhost", title: "Virtual host", cell: (row) => row.vhost },
      { key: "upstream", title: "Upstream", cell: (row) => row.upstream },
      { key: "takes", title: "Upstream object", cell: (row) => row.upstream_exchange ?? row.upstream_queue },
      { key: "uri", title: "URI", cell: (row) => ({ text: row.uri, class: "code" }) },
      { key: "status", title: "State", wrap: true, cell: linkState },
      { key: "forwarded", title: "Carried", number: true, cell: (row) => count(row.forwarded) },
      { key: "since", title: "Since", cell: (row) => row.timestamp },
      { key: "node", title: "Node", cell: (row) => row.node },
      ...(may("policymaker") ? [restartColumn(answer.told)] : []),
    ],
  });
  const refresh = async (signal) => {
    const place = chosenVhost() ? path("federation-links", chosenVhost()) : "federation-links";
    table.update(await get(place, {}, signal));
  };
  return { content: [panel("Links", table.element, answer.element)], refresh };
}

function linkState({ status, error }) {
  const kind = { running: "good", starting: "warn" }[status] ?? "bad";
  return [{ badge: status, kind }, error ?? ""];
}

function restartColumn(told) {
  const act = (row, button) =>
    actFromTable(button, {
      told,
      act: async () => {
        await remove(path("federation-links", "vhost", row.vhost, row.id, row.node, "restart"));
        return `The link of “${row.exchange ?? row.queue}” restarts.`;
      },
    });
  return {
    key: "actions",
    title: "Actions",
    cell: (row) =>
      row.uri
        ? { button: "Restart", label: `Restart the link of ${row.exchange ?? row.queue} with ${row.upstream}`, act }
        : "",
  };
}

function upstreamsPart() {
  return editableTable({
    title: "Upstreams",
    word: "upstream",
    article: "an",
    kind: ["parameters", UPSTREAM],
    columns: [
      { key: "uri", title: "URIs", wrap: true, cell: (row) => ({ text: shownUris(row.value.uri), class: "code" }) },
      { key: "rest", title: "Settings", wrap: true, cell: (row) => tableText(withoutUri(row.value)) },
    ],
    edit: upstreamForm(),
    warning: (row) =>
      `Links to “${row.name}” in “${row.vhost}” end, and their queues at the upstream are deleted with their messages.`,
  });
}

function withoutUri({ uri: _, ...rest }) {
  return rest;
}

function upstreamForm() {
  const vhost = vhostField();
  const name = textField("name", "Name", { required: true });
  const uris = areaField("uri", "URIs", {
    hint: "amqp://user:password@host:5672/vhost, one per line, all for the same broker. amqp:// alone is this broker.",
  });
  const settings = mapField("settings", "Settings", UPSTREAM_KEYS);
  const element = form({
    label: "Add or change an upstream",
    fields: [[vhost, name], uris, settings],
    submit: "Save",
    send: async ({ vhost: into, name: called, uri, settings: rest }) => {
      const given = uri.split(/\s+/).filter(Boolean);
      if (given.length === 0) throw new FieldError("URIs are missing.", uris.input);
      await put(path("parameters", UPSTREAM, into, called), {
        value: { ...rest, uri: given.length === 1 ? given[0] : given },
      });
      return `The upstream “${called}” was set.`;
    },
  });
  const load = (row, fold) => {
    vhost.input.value = row.vhost;
    name.input.value = row.name;
    uris.input.value = urisOf(row.value.uri).join("\n");
    settings.show(withoutUri(row.value));
    fold.open = true;
    uris.input.focus();
  };
  return { element, vhost, load };
}

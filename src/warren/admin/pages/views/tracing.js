// Traces: start, stop, and read their files.

import { get, path, put, remove } from "../app/api.js";
import { bytes, count } from "../app/format.js";
import { folded, h, panel } from "../parts/dom.js";
import { choiceField, numberField, textField } from "../parts/fields.js";
import { actFromTable, answerPlace, form } from "../parts/form.js";
import { Table } from "../parts/table.js";
import { vhostField } from "../sections/vhost_choice.js";

// bytes from the end of a file
const SHOWN_BYTES = 200_000;

export default function tracing() {
  const answer = answerPlace();
  const vhost = vhostField();
  const reader = h("div");
  const traces = traceTable(answer.told);
  const files = fileTable(reader, answer.told);

  async function refresh(signal) {
    const [running, kept] = await Promise.all([
      get("traces", {}, signal),
      get("trace-files", {}, signal),
      vhost.learn(signal),
    ]);
    traces.update(running);
    files.update(kept);
  }

  const lead = h(
    "p",
    { class: "lead" },
    "A trace writes every published or delivered message of a virtual host that matches its pattern to a file. It costs as much as the messages themselves: stop it when you are done.",
  );
  return {
    title: "Tracing",
    content: [
      lead,
      panel("Running", traces.element),
      folded("Start a trace", startForm(vhost)),
      panel("Files", files.element, answer.element, reader),
    ],
    refresh,
  };
}

function traceTable(told) {
  return new Table({
    caption: "Running traces",
    keyOf: (row) => JSON.stringify([row.vhost, row.name]),
    empty: "No trace is running.",
    columns: [
      { key: "name", title: "Name", cell: (row) => row.name },
      { key: "vhost", title: "Virtual host", cell: (row) => row.vhost },
      { key: "pattern", title: "Pattern", cell: (row) => ({ text: row.pattern, class: "code" }) },
      { key: "format", title: "Format", cell: (row) => row.format },
      {
        key: "limit",
        title: "Payload limit",
        cell: (row) => (row.max_payload_bytes ? bytes(row.max_payload_bytes) : "none"),
      },
      { key: "state", title: "State", cell: traceState },
      { key: "written", title: "Written", number: true, cell: (row) => count(row.written) },
      { key: "waiting", title: "Waiting", number: true, cell: (row) => count(row.queue?.messages) },
      { key: "dropped", title: "Dropped", number: true, cell: (row) => dropped(row.dropped) },
      {
        key: "stop",
        title: "Actions",
        cell: (row) => ({
          button: "Stop",
          danger: true,
          label: `Stop the trace ${row.name}`,
          act: (current, button) => stop(current, button, told),
        }),
      },
    ],
  });
}

function traceState({ state, reason }) {
  if (!state) return "";
  return [{ badge: state, kind: state === "running" ? "good" : "bad" }, reason ?? ""];
}

/** Copies that could not be written fast enough; the messages themselves are not affected. */
function dropped(copies) {
  return copies > 0
    ? { badge: count(copies), kind: "warn", title: "could not be written fast enough" }
    : count(copies);
}

function stop(row, button, told) {
  const act = async () => {
    await remove(path("traces", row.vhost, row.name));
    return `The trace “${row.name}” was stopped; its file stays.`;
  };
  return actFromTable(button, { act, told });
}

function startForm(vhost) {
  return form({
    label: "Start a trace",
    fields: [
      [vhost, textField("name", "Name", { required: true, hint: "Also the name of the file." })],
      [
        choiceField("format", "Format", [
          ["text", "Text"],
          ["json", "JSON lines"],
        ]),
        numberField("max_payload_bytes", "Payload limit, bytes", { hint: "Longer payloads are cut; empty for none." }),
      ],
      textField("pattern", "Pattern", {
        value: "#",
        required: true,
        hint: "# for all, publish.# or deliver.# for one direction, ack.#, reject.# or dead.# for outcomes of deliveries, publish.amq.topic for one exchange, deliver.myqueue for one queue.",
      }),
    ],
    submit: "Start trace",
    send: async ({ vhost: into, name, ...rest }) => {
      await put(path("traces", into, name), rest);
      return `The trace “${name}” is running.`;
    },
  });
}

function fileTable(reader, told) {
  return new Table({
    caption: "Trace files",
    keyOf: (row) => row.name,
    empty: "No files.",
    columns: [
      { key: "name", title: "File", cell: (row) => row.name },
      { key: "size", title: "Size", number: true, cell: (row) => bytes(row.size) },
      {
        key: "actions",
        title: "Actions",
        cell: (row) => [
          {
            button: "View",
            label: `View ${row.name}`,
            act: (current, button) => view(current, button, reader, told),
          },
          {
            button: "Download",
            label: `Download ${row.name}`,
            act: (current, button) => download(current.name, button, told),
          },
          {
            button: "Delete",
            danger: true,
            label: `Delete ${row.name}`,
            act: (current, button) => deleteFile(current.name, button, reader, told),
          },
        ],
      },
    ],
  });
}

const textOf = async (name, query) => (await get(path("trace-files", name), query)) ?? "";

function view({ name, size }, button, reader, told) {
  const act = async () => {
    const text = await textOf(name, { tail: SHOWN_BYTES });
    const heading = h("h3", { tabindex: "-1" }, size > SHOWN_BYTES ? `The end of ${name}` : name);
    reader.replaceChildren(
      heading,
      h("pre", { class: "body", tabindex: "0", role: "region", "aria-label": name }, text),
    );
    heading.focus();
    return "";
  };
  return actFromTable(button, { act, told });
}

function download(name, button, told) {
  const act = async () => {
    const address = URL.createObjectURL(new Blob([await textOf(name)], { type: "text/plain" }));
    h("a", { href: address, download: name }).click();
    URL.revokeObjectURL(address);
    return `Saved as ${name}.`;
  };
  return actFromTable(button, { act, told });
}

function deleteFile(name, button, reader, told) {
  const ask = { title: "Delete the file?", text: `“${name}” is deleted from the node's disk.`, action: "Delete" };
  const act = async () => {
    await remove(path("trace-files", name));
    reader.replaceChildren();
    return `“${name}” was deleted.`;
  };
  return actFromTable(button, { ask, act, told });
}

// A table of named objects in virtual hosts, a form that adds or changes one, and a button that deletes one.

import { get, path, remove } from "../app/api.js";
import { chosenVhost } from "../app/settings.js";
import { folded, panel } from "../parts/dom.js";
import { actFromTable, answerPlace } from "../parts/form.js";
import { Table } from "../parts/table.js";

/**
 * `kind` are the first names of the API's path, `edit` is `{element, vhost, load(row, fold)}` or null if the user may
 * not change anything, `warning(row)` says what a deletion does. `{content, refresh}`.
 */
export function editableTable({ title, word, article = "a", kind, columns, edit, warning }) {
  const answer = answerPlace();
  const fold = edit ? folded(`Add or change ${article} ${word}`, edit.element) : null;
  const actions = {
    key: "actions",
    title: "Actions",
    cell: (row) => [
      { button: "Change", label: `Change ${row.name}`, act: (current) => edit.load(current, fold) },
      { button: "Delete", danger: true, label: `Delete ${row.name}`, act: deleteRow },
    ],
  };

  function deleteRow(row, button) {
    const ask = { title: `Delete the ${word}?`, text: warning(row), action: "Delete" };
    const act = async () => {
      await remove(path(...kind, row.vhost, row.name));
      return `“${row.name}” was deleted.`;
    };
    return actFromTable(button, { ask, act, told: answer.told });
  }

  const table = new Table({
    caption: title,
    keyOf: (row) => JSON.stringify([row.vhost, row.name]),
    empty: "None.",
    columns: [
      { key: "name", title: "Name", cell: (row) => row.name },
      { key: "vhost", title: "Virtual host", cell: (row) => row.vhost },
      ...columns,
      ...(edit ? [actions] : []),
    ],
  });
  const refresh = async (signal) => {
    table.update(await get(path(...kind, ...(chosenVhost() ? [chosenVhost()] : [])), {}, signal));
    await edit?.vhost.learn(signal);
  };
  return { content: [panel(title, table.element, answer.element), fold].filter(Boolean), refresh };
}

// Move the messages of a queue, purge it, delete it.

import { post, remove } from "../app/api.js";
import { count } from "../app/format.js";
import { link } from "../app/router.js";
import { checkField, numberField, textField } from "../parts/fields.js";
import { actionButton, form } from "../parts/form.js";

export function moveForm(here, name) {
  return form({
    label: "Move messages",
    fields: [
      [
        textField("destination", "To the queue", { required: true, hint: "In the same virtual host." }),
        numberField("count", "How many", { hint: "All that are ready, if left empty.", min: 1 }),
      ],
    ],
    submit: "Move messages",
    ask: ({ destination, count: wanted }) => ({
      title: "Move messages?",
      text: `${wanted ? count(wanted) : "All"} ready messages of “${name}” go to the end of “${destination}”.`,
      action: "Move them",
    }),
    send: async ({ destination, count: wanted }) => {
      const { moved } = await post(`${here}/move`, { destination, count: wanted });
      return `${count(moved)} ${moved === 1 ? "message" : "messages"} moved.`;
    },
  });
}

export function purgeForm(here, name) {
  return actionButton({
    text: "Purge the queue",
    danger: true,
    ask: () => ({
      title: "Purge the queue?",
      text: `Every ready message of “${name}” is dropped for good. Unacked ones stay.`,
      action: "Purge it",
    }),
    act: async () => {
      await remove(`${here}/contents`);
      return "Purged.";
    },
  });
}

export function deleteQueueForm(here, name) {
  return form({
    label: "Delete this queue",
    fields: [[checkField("unused", "Only if it has no consumers"), checkField("empty", "Only if it is empty")]],
    submit: "Delete the queue",
    danger: true,
    ask: () => ({
      title: "Delete the queue?",
      text: `“${name}” goes, with its messages and bindings. Its consumers are cancelled.`,
      action: "Delete",
    }),
    send: async ({ unused, empty }) => {
      await remove(here, { query: { "if-unused": unused ? "true" : "", "if-empty": empty ? "true" : "" } });
      location.hash = link("queues");
    },
  });
}

// The list of users, and the form that adds one.

import { get, path, put, remove } from "../../app/api.js";
import { link } from "../../app/router.js";
import { folded } from "../../parts/dom.js";
import { checksField, textField } from "../../parts/fields.js";
import { actFromTable, answerPlace, FieldError, form } from "../../parts/form.js";
import { Listing, nameColumn } from "../../parts/listing.js";

export const TAGS = [
  ["management", "management: sees their own virtual hosts here"],
  ["policymaker", "policymaker: also sets policies"],
  ["monitoring", "monitoring: sees everything"],
  ["administrator", "administrator: everything"],
];

export default function users({ query }) {
  const answer = answerPlace();
  let vhosts = new Map();
  const listing = new Listing({
    name: "users",
    things: "users",
    caption: "Users",
    query,
    sort: "name",
    where: () => "users",
    keyOf: (row) => row.name,
    columns: [
      nameColumn((row) => ({ text: row.name, href: link("users", row.name) })),
      { key: "tags", title: "Tags", phone: true, cell: (row) => tagList(row.tags).map((tag) => ({ badge: tag })) },
      {
        key: "vhosts",
        title: "Can access virtual hosts",
        cell: (row) => vhosts.get(row.name)?.join(", ") ?? { badge: "no virtual host", kind: "warn" },
      },
      {
        key: "password",
        title: "Password",
        cell: (row) => (row.password_hash ? "set" : { badge: "none", kind: "warn" }),
      },
      { key: "limits", title: "Limits", cell: (row) => limitText(row.limits) },
      {
        key: "delete",
        title: "Actions",
        phone: true,
        cell: (row) => ({
          button: "Delete",
          danger: true,
          label: `Delete the user ${row.name}`,
          act: (current, button) => deleteUser(current.name, button, answer.told),
        }),
      },
    ],
  });

  async function refresh(signal) {
    const permissions = await get("permissions", {}, signal);
    vhosts = new Map();
    for (const { user, vhost } of permissions) vhosts.set(user, [...(vhosts.get(user) ?? []), vhost]);
    await listing.refresh(signal);
  }

  return { title: "Users", content: [listing.element, answer.element, folded("Add a user", addForm())], refresh };
}

export function tagList(tags) {
  return typeof tags === "string" ? tags.split(",").filter(Boolean) : (tags ?? []);
}

export function limitText(limits) {
  return Object.entries(limits ?? {})
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}

function addForm() {
  const password = textField("password", "Password", {
    type: "password",
    autocomplete: "new-password",
    hint: "If empty, the user cannot log in with a password.",
  });
  const again = textField("again", "Repeat password", { type: "password", autocomplete: "new-password" });
  return form({
    label: "Add a user",
    fields: [textField("name", "Name", { required: true }), [password, again], checksField("tags", "Tags", TAGS)],
    submit: "Add user",
    send: async ({ name, password: word, again: repeated, tags }) => {
      if (word !== repeated) throw new FieldError("The two passwords differ.", again.input);
      await put(path("users", name), { ...(word ? { password: word } : { password_hash: "" }), tags: tags.join(",") });
      return `The user “${name}” was added. Set permissions on the user's page.`;
    },
  });
}

export function deleteUser(name, button, told) {
  return actFromTable(button, {
    ask: {
      title: "Delete the user?",
      text: `“${name}” and their permissions are deleted. Their connections are closed.`,
      action: "Delete",
    },
    act: async () => {
      await remove(path("users", name));
      return `The user “${name}” was deleted.`;
    },
    told,
  });
}

// Policies and operator policies.

import { path, put } from "../../app/api.js";
import { count, tableText } from "../../app/format.js";
import { may } from "../../app/session.js";
import { h } from "../../parts/dom.js";
import { choiceField, numberField, textField } from "../../parts/fields.js";
import { FieldError, form } from "../../parts/form.js";
import { mapField } from "../../parts/map_field.js";
import { editableTable } from "../../sections/editable_table.js";
import { OPERATOR_POLICY_KEYS, POLICY_KEYS } from "../../sections/known_arguments.js";
import { vhostField } from "../../sections/vhost_choice.js";

const ALL = [
  ["all", "Queues and exchanges"],
  ["queues", "Queues"],
  ["exchanges", "Exchanges"],
];

export default function policies() {
  const ordinary = part({
    kind: "policies",
    title: "Policies",
    word: "policy",
    keys: POLICY_KEYS,
    targets: ALL,
    editable: may("policymaker"),
  });
  const operator = part({
    kind: "operator-policies",
    title: "Operator policies",
    word: "operator policy",
    article: "an",
    keys: OPERATOR_POLICY_KEYS,
    targets: [["queues", "Queues"]],
    editable: may("administrator"),
  });
  const lead = h(
    "p",
    { class: "lead" },
    "Of the policies that match a name, the one with the highest priority applies. An operator policy adds limits: of two limits the smaller applies.",
  );
  const refresh = (signal) => Promise.all([ordinary.refresh(signal), operator.refresh(signal)]);
  return { title: "Policies", content: [lead, ...ordinary.content, ...operator.content], refresh };
}

function part({ kind, title, word, article, keys, targets, editable }) {
  return editableTable({
    title,
    word,
    article,
    kind: [kind],
    columns: [
      { key: "pattern", title: "Pattern", cell: (row) => ({ text: row.pattern, class: "code" }) },
      { key: "apply-to", title: "Applies to", cell: (row) => row["apply-to"] },
      { key: "definition", title: "Definition", wrap: true, cell: (row) => tableText(row.definition) },
      { key: "priority", title: "Priority", number: true, cell: (row) => count(row.priority) },
    ],
    edit: editable ? policyForm(kind, word, keys, targets) : null,
    warning: (row) => `“${row.name}” in “${row.vhost}” is deleted. The next matching policy, if any, applies instead.`,
  });
}

function policyForm(kind, word, keys, targets) {
  const vhost = vhostField();
  const name = textField("name", "Name", { required: true });
  const pattern = textField("pattern", "Pattern", {
    required: true,
    hint: "A regular expression for names: ^orders\\. matches all that begin with it.",
  });
  const applyTo = choiceField("target", "Applies to", targets);
  const priority = numberField("priority", "Priority", { value: 0, required: true, min: -2_147_483_648 });
  const definition = mapField("definition", "Definition", keys);
  const element = form({
    label: `Add or change: ${word}`,
    fields: [[vhost, name], pattern, [applyTo, priority], definition],
    submit: "Save",
    send: async (values) => {
      if (Object.keys(values.definition).length === 0)
        throw new FieldError("The definition is empty.", definition.element.querySelector(".chips button"));
      const { vhost: into, name: called, target, ...rest } = values;
      await put(path(kind, into, called), { ...rest, "apply-to": target });
      return `“${called}” is set.`;
    },
  });
  const load = (row, fold) => {
    vhost.input.value = row.vhost;
    name.input.value = row.name;
    pattern.input.value = row.pattern;
    applyTo.input.value = row["apply-to"];
    priority.input.value = String(row.priority);
    definition.show(row.definition);
    fold.open = true;
    pattern.input.focus();
  };
  return { element, vhost, load };
}

// One virtual host: rates, permissions, limits, tracing, delete.

import { get, path, put, remove } from "../../app/api.js";
import { count } from "../../app/format.js";
import { link } from "../../app/router.js";
import { sampleQuery } from "../../charts/samples.js";
import { lengthChart, rangeChooser, rateChart } from "../../charts/stats.js";
import { folded, h, panel } from "../../parts/dom.js";
import { Facts } from "../../parts/facts.js";
import { textField } from "../../parts/fields.js";
import { actionButton, FieldError, form } from "../../parts/form.js";
import { limitForm, limitTable } from "../../sections/limits.js";
import { permissionSection, topicPermissionSection } from "../../sections/permissions.js";
import { vhostState } from "./vhosts.js";

const RATES = [
  ["publish", "Published"],
  ["confirm", "Confirmed"],
  ["deliver_get", "Delivered"],
  ["ack", "Acked"],
];

export default function vhost({ names: [, name] }) {
  const here = path("vhosts", name);
  const facts = new Facts();
  const lengths = lengthChart("Queued messages");
  const rates = rateChart("Message rates", RATES);
  const permissions = permissionSection({ where: `${here}/permissions`, vhost: name });
  const topics = topicPermissionSection({ where: `${here}/topic-permissions`, vhost: name });
  const limits = limitTable("vhost");
  const tracing = tracingSwitch(here);

  async function refresh(signal) {
    const [one, set] = await Promise.all([
      get(here, sampleQuery("lengths", "msg_rates"), signal),
      get(path("vhost-limits", name), {}, signal),
      permissions.refresh(signal),
      topics.refresh(signal),
    ]);
    facts.update([
      ["Description", one.description],
      ["Tags", (one.tags ?? []).map((tag) => ({ badge: tag }))],
      ["State", vhostState(one)],
      ["Messages", count(one.messages ?? 0)],
      ["Tracing", one.tracing ? "on" : "off"],
    ]);
    lengths.update(one);
    rates.update(one.message_stats);
    limits.update(set);
    tracing.show(one.tracing);
  }

  const content = [
    h("div", { class: "row" }, rangeChooser()),
    h(
      "div",
      { class: "side-by-side" },
      h("div", { class: "panel" }, lengths.element),
      h("div", { class: "panel" }, rates.element),
    ),
    panel("Details", facts.element, tracing.element),
    panel("Permissions", permissions.element),
    panel("Topic permissions", topics.element),
    panel("Limits", limits.element, limitForm("vhost", name)),
    folded("Delete this virtual host", deleteForm(here, name)),
  ];
  return { title: name, crumb: h("a", { href: link("vhosts") }, "Virtual hosts"), content, refresh };
}

function tracingSwitch(here) {
  const change = (tracing) =>
    actionButton({
      text: tracing ? "Switch tracing on" : "Switch tracing off",
      act: async () => {
        await put(here, { tracing });
        return tracing ? "Copies of all messages go to amq.rabbitmq.trace." : "Tracing is off.";
      },
    });
  const [on, off] = [change(true), change(false)];
  const show = (tracing) => {
    on.hidden = tracing;
    off.hidden = !tracing;
  };
  show(false);
  return { element: h("div", {}, on, off), show };
}

function deleteForm(here, name) {
  const typed = textField("typed", "Type its name to confirm", { required: true });
  return form({
    label: "Delete this virtual host",
    fields: [typed],
    submit: "Delete the virtual host",
    danger: true,
    ask: () => {
      if (typed.input.value !== name) throw new FieldError("The name does not match.", typed.input);
      return {
        title: "Delete the virtual host?",
        text: `“${name}” is deleted with all its queues, messages, exchanges, policies and permissions. Its connections are closed.`,
        action: "Delete everything",
      };
    },
    send: async () => {
      await remove(here);
      location.hash = link("vhosts");
    },
  });
}

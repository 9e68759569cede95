// One exchange: rates, bindings both ways, publish, delete.

import { get, path, remove } from "../app/api.js";
import { exchangeName, tableText } from "../app/format.js";
import { link } from "../app/router.js";
import { sampleQuery } from "../charts/samples.js";
import { figureFacts, rangeChooser, rateChart } from "../charts/stats.js";
import { folded, h, panel } from "../parts/dom.js";
import { Facts } from "../parts/facts.js";
import { checkField } from "../parts/fields.js";
import { form } from "../parts/form.js";
import { bindFromForm, bindToForm, bindingTable } from "../sections/bindings.js";
import { publishForm } from "../sections/publish.js";
import { exchangeBadges } from "./exchanges.js";

const DEFAULT = "amq.default";

export default function exchange({ names: [, vhost, name = DEFAULT] }) {
  const here = path("exchanges", vhost, name);
  const isDefault = name === DEFAULT;
  const facts = new Facts();
  const figures = new Facts();
  const rates = rateChart("Message rates", [
    ["publish_in", "In"],
    ["publish_out", "Out"],
  ]);
  const from = bindingTable({
    caption: "Bindings from this exchange",
    where: `${here}/bindings/source`,
    far: "destination",
  });
  const to = bindingTable({
    caption: "Bindings to this exchange",
    where: `${here}/bindings/destination`,
    far: "source",
  });

  async function refresh(signal) {
    const [one] = await Promise.all([
      get(here, sampleQuery("msg_rates"), signal),
      from.refresh(signal),
      isDefault ? null : to.refresh(signal),
    ]);
    facts.update(factsOf(one));
    figures.update(figureFacts(one.message_stats));
    rates.update(one.message_stats);
  }

  const content = [
    h(
      "div",
      { class: "side-by-side" },
      panel("Details", facts.element, figures.element),
      h("div", { class: "panel" }, rangeChooser(), rates.element),
    ),
    panel("Bindings from here", from.element),
  ];
  if (!isDefault) {
    content.push(
      panel("Bindings to here", to.element),
      folded("Bind from here", bindFromForm(vhost, name)),
      folded("Bind to here", bindToForm(vhost, "exchange", name)),
    );
  }
  content.push(folded("Publish a message", publishForm(vhost, name)));
  if (!name.startsWith("amq.")) content.push(folded("Delete this exchange", deleteForm(here, name)));
  return { title: isDefault ? exchangeName("") : name, crumb: crumb(vhost), content, refresh };
}

function crumb(vhost) {
  return h("span", {}, h("a", { href: link("exchanges") }, "Exchanges"), ` in ${vhost}`);
}

function factsOf(one) {
  return [
    ["Type", one.type],
    ["Virtual host", one.vhost],
    ["Features", exchangeBadges({ ...one, arguments: {} })],
    ["Arguments", tableText(one.arguments)],
    ["Policy", one.policy ?? "none"],
  ];
}

function deleteForm(here, name) {
  return form({
    label: "Delete this exchange",
    fields: [checkField("unused", "Only if nothing is bound to it")],
    submit: "Delete the exchange",
    danger: true,
    ask: () => ({
      title: "Delete the exchange?",
      text: `“${name}” and its bindings are deleted. Publishers to it get a channel error.`,
      action: "Delete",
    }),
    send: async ({ unused }) => {
      await remove(here, { query: unused ? { "if-unused": "true" } : {} });
      location.hash = link("exchanges");
    },
  });
}

// The view of each address, and the pages in a user's navigation.
//
// A view is loaded when it is first opened. Pages that a user's tags do not allow are left out, because the node would
// refuse their requests.

import { may } from "./session.js";

const LISTS = {
  "": "overview",
  connections: "connections",
  channels: "channels",
  exchanges: "exchanges",
  queues: "queues",
  policies: "access/policies",
  users: "access/users",
  vhosts: "access/vhosts",
  limits: "access/limits",
  shovels: "shovels",
  federation: "federation",
  definitions: "definitions",
  tracing: "tracing",
  logs: "logs",
};
const SINGLES = {
  connections: "connection",
  channels: "channel",
  exchanges: "exchange",
  queues: "queue",
  users: "access/user",
  vhosts: "access/vhost",
};

export async function findView(names) {
  const [family = ""] = names;
  const view = names.length <= 1 ? LISTS[family] : SINGLES[family];
  if (!view) throw new Error("There is no such page.");
  return (await import(`../views/${view}.js`)).default;
}

/** Headings with their pages, as `[address, text]`. */
export function navigation() {
  const see = [
    ["", "Overview"],
    ["connections", "Connections"],
    ["channels", "Channels"],
    ["exchanges", "Exchanges"],
    ["queues", "Queues"],
  ];
  const rule = [];
  if (may("administrator")) rule.push(["users", "Users"]);
  if (may("administrator")) rule.push(["vhosts", "Virtual hosts"]);
  rule.push(["policies", "Policies"]);
  if (may("administrator")) rule.push(["limits", "Limits"]);
  const bridge =
    may("monitoring") || may("policymaker")
      ? [
          ["shovels", "Shovels"],
          ["federation", "Federation"],
        ]
      : [];
  const keep = may("administrator")
    ? [
        ["definitions", "Definitions"],
        ["tracing", "Tracing"],
        ["logs", "Log levels"],
      ]
    : [];
  return [
    ["", see],
    ["Rules", rule],
    ["Bridges", bridge],
    ["Admin", keep],
  ].filter(([, pages]) => pages.length);
}

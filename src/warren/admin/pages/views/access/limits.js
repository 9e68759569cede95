// All limits of virtual hosts and users.

import { get } from "../../app/api.js";
import { panel } from "../../parts/dom.js";
import { limitForm, limitTable } from "../../sections/limits.js";

export default function limits() {
  const vhosts = limitTable("vhost");
  const users = limitTable("user");
  const vhostForm = limitForm("vhost");

  async function refresh(signal) {
    const [ofVhosts, ofUsers] = await Promise.all([
      get("vhost-limits", {}, signal),
      get("user-limits", {}, signal),
      vhostForm.learn(signal),
    ]);
    vhosts.update(ofVhosts);
    users.update(ofUsers);
  }

  return {
    title: "Limits",
    content: [panel("Virtual hosts", vhosts.element, vhostForm), panel("Users", users.element, limitForm("user"))],
    refresh,
  };
}

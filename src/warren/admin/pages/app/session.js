// The current user and their tags.
//
// The credentials are kept in sessionStorage until the tab is closed. There is no cookie.
// Not here: authorisation. The node checks every request; pages only leave out what would be refused.

import { authorizeBy, basicAuthorization, get } from "./api.js";

const KEY = "warren.authorization";

let user = null;
let nodeCount = 1;

export const currentUser = () => user;

/** Whether the cluster has several nodes, so that pages show an object's node. */
export const isCluster = () => nodeCount > 1;

/** Whether the user has a tag, or one that includes it. */
export function may(tag) {
  const tags = user?.tags ?? [];
  if (tags.includes("administrator") || tags.includes(tag)) return true;
  return tag === "management" && (tags.includes("monitoring") || tags.includes("policymaker"));
}

/** Log in, or throw an `ApiError`. */
export async function login(name, password) {
  await enter(basicAuthorization(name, password));
}

/** Log in with the stored credentials of this tab; false if there are none or they fail. */
export async function resume() {
  const header = stored();
  if (!header) return false;
  await enter(header);
  return true;
}

export function logout() {
  user = null;
  authorizeBy("");
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // no storage, nothing to remove
  }
}

async function enter(header) {
  authorizeBy(header);
  try {
    const answer = await get("whoami");
    user = { name: answer.name, tags: tagsOf(answer.tags) };
    nodeCount = may("monitoring") ? (await get("nodes", { columns: "name", disable_stats: true })).length : 1;
  } catch (trouble) {
    authorizeBy("");
    throw trouble;
  }
  try {
    sessionStorage.setItem(KEY, header);
  } catch {
    // without storage a reload asks for the login again
  }
}

function tagsOf(tags) {
  return typeof tags === "string" ? tags.split(",").map((tag) => tag.trim()) : tags;
}

function stored() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

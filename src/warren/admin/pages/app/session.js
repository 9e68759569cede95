// Who is logged in, and what their tags let them see.
//
// The credentials live as long as the tab (sessionStorage) and nowhere else: no cookie is set.
// Not here: what the node lets a user do; it judges every request itself. Pages only leave out what would be refused.

import { authorizeBy, basicAuthorization, get } from "./api.js";

const KEY = "warren.authorization";

let user = null;
let nodeCount = 1;

export const currentUser = () => user;

/** Whether there are several nodes, so that it matters where something lives. */
export const isCluster = () => nodeCount > 1;

/** Whether the user has a tag, or one that includes it. */
export function may(tag) {
  const tags = user?.tags ?? [];
  if (tags.includes("administrator") || tags.includes(tag)) return true;
  return tag === "management" && (tags.includes("monitoring") || tags.includes("policymaker"));
}

/** Log in, or raise the `ApiError` that says why not. */
export async function login(name, password) {
  await enter(basicAuthorization(name, password));
}

/** Go on with the credentials of this tab, if it has any; whether that went well. */
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
    // without storage there is nothing to remove
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
    // without storage a reload asks again
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

// The current user and their tags.
//
// The credentials are kept in sessionStorage until the tab is closed. There is no cookie. An access token is renewed
// before it expires, if the issuer gave a refresh token.
// Not here: authorisation. The node checks every request; pages only leave out what would be refused.

import { authorizeBy, basicAuthorization, get } from "./api.js";

const KEY = "warren.authorization";
const TOKENS = "warren.tokens";
const RENEW_BEFORE_S = 30;

let user = null;
let issuer = null;
let renewal = 0;
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

/** Log in with the tokens of an issuer. */
export async function loginWithTokens(at, answer) {
  issuer = at;
  await enter(`Bearer ${answer.access_token}`);
  const tokens = {
    refresh: answer.refresh_token ?? "",
    id: answer.id_token ?? "",
    expiresAt: Date.now() + 1000 * (answer.expires_in ?? 0),
  };
  store(TOKENS, JSON.stringify(tokens));
  renewLater(tokens);
}

/** Log in with the stored credentials of this tab; false if there are none or they fail. */
export async function resume(at) {
  const header = stored(KEY);
  if (!header) return false;
  await enter(header);
  const tokens = stored(TOKENS);
  if (at && tokens) {
    issuer = at;
    renewLater(JSON.parse(tokens));
  }
  return true;
}

/** Forget the credentials, and end the session at the issuer if `there`. */
export async function logout(there = false) {
  const tokens = stored(TOKENS);
  user = null;
  clearTimeout(renewal);
  authorizeBy("");
  forget(KEY);
  forget(TOKENS);
  if (there && issuer && tokens) await issuer.leave(JSON.parse(tokens).id);
}

/** Whether the login was made at an issuer. */
export const hasToken = () => stored(TOKENS) !== null;

function renewLater(tokens) {
  clearTimeout(renewal);
  if (!tokens.refresh || !tokens.expiresAt) return;
  const leftMs = tokens.expiresAt - Date.now();
  renewal = setTimeout(() => renew(tokens), Math.max(0, leftMs - Math.min(1000 * RENEW_BEFORE_S, leftMs / 2)));
}

async function renew(tokens) {
  try {
    const answer = await issuer.renewed(tokens.refresh);
    if (!user) return; // logged out meanwhile
    await loginWithTokens(issuer, { refresh_token: tokens.refresh, id_token: tokens.id, ...answer });
  } catch {
    // the token expires, and the next request leads to the login
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
  store(KEY, header);
}

function tagsOf(tags) {
  return typeof tags === "string" ? tags.split(",").map((tag) => tag.trim()) : tags;
}

function stored(key) {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

function store(key, text) {
  try {
    sessionStorage.setItem(key, text);
  } catch {
    // without storage a reload asks for the login again
  }
}

function forget(key) {
  try {
    sessionStorage.removeItem(key);
  } catch {
    // no storage, nothing to remove
  }
}

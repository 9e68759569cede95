// One question to the node's HTTP API, and its answer or the sentence that says why there is none.
//
// Credentials travel in a header that only this page's own code sets: the browser adds none by itself (`omit`), so
// another site's page cannot act in an operator's name, and the browser never opens a password box of its own.
// Not here: who is logged in (session.js), when to ask again (poll.js).

import { sentence } from "./format.js";

const ROOT = new URL("api/", document.baseURI);

let authorization = "";
let silent = "";

export function authorizeBy(header) {
  authorization = header;
}

/** The nodes of the cluster that had no part in the last answer, as text; empty when all had. */
export const silentNodes = () => silent;

/** Why a question was not answered, as a sentence; `status` is 0 when the node could not be reached. */
export class ApiError extends Error {
  constructor(status, message, reason) {
    super(message);
    this.status = status;
    this.reason = reason;
  }

  get loginFailed() {
    return this.status === 401 && this.reason === "Login failed";
  }
}

/** A path of the API from names, whatever they hold. */
export function path(...names) {
  for (const name of names) {
    // a browser takes these for steps in the path, even when they are escaped
    if (name === "." || name === "..")
      throw new ApiError(0, `A name of dots alone, “${name}”, cannot be part of an address.`);
  }
  return names.map(encodeURIComponent).join("/");
}

export const get = (where, query, signal) => ask("GET", where, { query, signal });
export const put = (where, body) => ask("PUT", where, { body });
export const post = (where, body) => ask("POST", where, { body });
export const remove = (where, { query, headers } = {}) => ask("DELETE", where, { query, headers });

/** The answer's JSON, or its text, or null when it has no body. */
export async function ask(method, where, { query = {}, body, headers = {}, signal } = {}) {
  const response = await send(method, address(where, query), body, headers, signal);
  const text = await bodyOf(response);
  silent = response.headers.get("x-silent-nodes") ?? "";
  const json = /json/.test(response.headers.get("content-type") ?? "");
  if (!response.ok) throw refusal(response.status, text);
  if (text === "") return null;
  return json ? JSON.parse(text) : text;
}

function address(where, query) {
  const url = new URL(where, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

async function send(method, url, body, headers, signal) {
  const sent = { authorization, ...headers };
  if (body !== undefined) sent["content-type"] = "application/json";
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  try {
    return await fetch(url, { method, headers: sent, body: text, signal, credentials: "omit", cache: "no-store" });
  } catch (trouble) {
    throw unreachable(trouble);
  }
}

async function bodyOf(response) {
  try {
    return await response.text();
  } catch (trouble) {
    throw unreachable(trouble);
  }
}

function unreachable(trouble) {
  if (trouble.name === "AbortError") return trouble;
  return new ApiError(0, "The node does not answer.", "unreachable");
}

function refusal(status, text) {
  let reason = "";
  try {
    const answer = JSON.parse(text);
    reason = answer.reason ?? answer.error ?? "";
  } catch {
    reason = "";
  }
  reason = unescaped(typeof reason === "string" ? reason : JSON.stringify(reason));
  if (status === 404 && /^(not found|object not found|)$/i.test(reason))
    return new ApiError(404, "There is no such thing here.", reason);
  return new ApiError(status, sentence(reason || `The node answered ${status}`), reason);
}

/** The API escapes some reasons for markup, which is never made of them here. */
function unescaped(text) {
  const marks = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&amp;": "&" };
  return text.replace(/&(lt|gt|quot|amp);/g, (mark) => marks[mark]);
}

/** Text as a header carries it: its UTF-8 bytes, without control characters. */
export function headerText(text) {
  return utf8Bytes(text.replace(/[\u0000-\u001f\u007f]/g, " "));
}

/** User and password as HTTP Basic wants them, in UTF-8. */
export function basicAuthorization(user, password) {
  return `Basic ${btoa(utf8Bytes(`${user}:${password}`))}`;
}

function utf8Bytes(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

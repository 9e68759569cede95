// Requests to the node's HTTP API; an error is a sentence.
//
// Credentials are in a header that only this page's code sets. The browser adds none (`omit`), so another site's page
// cannot act as the operator, and the browser never opens its own password dialog.
// Not here: who is logged in (session.js), when to ask again (poll.js).

import { sentence } from "./format.js";

const ROOT = new URL("api/", document.baseURI);

let authorization = "";
let silent = "";

export function authorizeBy(header) {
  authorization = header;
}

/** The cluster nodes that did not contribute to the last response, as text. */
export const silentNodes = () => silent;

/** Why a request failed, as a sentence; `status` is 0 if the node could not be reached. */
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

/** An API path from names with any characters. */
export function path(...names) {
  for (const name of names) {
    // browsers resolve these as path steps, even when escaped
    if (name === "." || name === "..")
      throw new ApiError(0, `A name of dots alone, “${name}”, cannot be part of an address.`);
  }
  return names.map(encodeURIComponent).join("/");
}

export const get = (where, query, signal) => ask("GET", where, { query, signal });
export const put = (where, body) => ask("PUT", where, { body });
export const post = (where, body) => ask("POST", where, { body });
export const remove = (where, { query, headers } = {}) => ask("DELETE", where, { query, headers });

/** The JSON or text of the response, or null without a body. */
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
    return new ApiError(404, "Not found.", reason);
  return new ApiError(status, sentence(reason || `The node answered ${status}`), reason);
}

/** The API escapes some reasons as HTML; here they are only shown as text. */
function unescaped(text) {
  const marks = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&amp;": "&" };
  return text.replace(/&(lt|gt|quot|amp);/g, (mark) => marks[mark]);
}

/** Text for a header: UTF-8 bytes without control characters. */
export function headerText(text) {
  return utf8Bytes(text.replace(/[\u0000-\u001f\u007f]/g, " "));
}

/** User and password for HTTP Basic, in UTF-8. */
export function basicAuthorization(user, password) {
  return `Basic ${btoa(utf8Bytes(`${user}:${password}`))}`;
}

function utf8Bytes(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

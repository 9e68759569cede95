// Login at an issuer: OpenID Connect, authorization code with PKCE.
//
//   this page --code challenge--> issuer --code--> this page --code, verifier--> issuer --tokens--> this page
//
// The verifier and the state stay in this tab's sessionStorage until the issuer sends the browser back. Only the tab
// that began a login can complete it. The node verifies the access token; this page does not look into it.
// Not here: who is logged in (session.js), the button (views/login.js).

import { get } from "./api.js";

const KEY = "warren.openid";

/** How to log in at the issuer; null if the node has no issuer for its pages. */
export async function issuerLogin() {
  const facts = await get("auth");
  return facts.oauth_enabled ? new IssuerLogin(facts) : null;
}

class IssuerLogin {
  #facts;

  constructor(facts) {
    this.#facts = facts;
  }

  /** The issuer, as the user knows it. */
  get host() {
    return new URL(this.#facts.oauth_metadata_url).host;
  }

  get takesPasswords() {
    return !this.#facts.oauth_disable_basic_auth;
  }

  /** Leave for the issuer's page. */
  async begin() {
    if (!crypto.subtle) throw new Error("A login at an issuer needs a page with HTTPS.");
    const { authorization_endpoint: where } = await this.#metadata();
    const verifier = randomText();
    const state = randomText();
    sessionStorage.setItem(KEY, JSON.stringify({ verifier, state, hash: location.hash }));
    const url = new URL(where);
    const query = {
      response_type: "code",
      client_id: this.#facts.oauth_client_id,
      redirect_uri: here(),
      scope: this.#facts.oauth_scopes,
      state,
      code_challenge: await challengeOf(verifier),
      code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    location.assign(url);
  }

  /** The tokens, if the issuer has sent the browser back with a code; else null. */
  async complete() {
    const query = new URLSearchParams(location.search);
    if (!query.has("state") || !(query.has("code") || query.has("error"))) return null;
    const begun = takeBegun();
    // a code is used once, and must not be in the history
    history.replaceState(null, "", here() + (begun?.hash ?? ""));
    if (!begun || begun.state !== query.get("state")) throw new Error("The login was not begun in this tab.");
    if (query.has("error")) throw new Error(query.get("error_description") ?? `The issuer says ${query.get("error")}.`);
    return this.#tokens({
      grant_type: "authorization_code",
      code: query.get("code"),
      code_verifier: begun.verifier,
      redirect_uri: here(),
    });
  }

  /** New tokens for a refresh token. */
  renewed(refreshToken) {
    return this.#tokens({ grant_type: "refresh_token", refresh_token: refreshToken });
  }

  /** Leave for the issuer's page that ends the session there, if it has one. */
  async leave(idToken) {
    const { end_session_endpoint: where } = await this.#metadata();
    if (!where) return;
    const url = new URL(where);
    url.searchParams.set("client_id", this.#facts.oauth_client_id);
    url.searchParams.set("post_logout_redirect_uri", here());
    if (idToken) url.searchParams.set("id_token_hint", idToken);
    location.assign(url);
  }

  async #metadata() {
    return answerOf(this.host, this.#facts.oauth_metadata_url, {});
  }

  async #tokens(fields) {
    const { token_endpoint: where } = await this.#metadata();
    const form = new URLSearchParams({ client_id: this.#facts.oauth_client_id, ...fields });
    if (this.#facts.oauth_client_secret) form.set("client_secret", this.#facts.oauth_client_secret);
    const answer = await answerOf(this.host, where, { method: "POST", body: form });
    if (!answer.access_token) throw new Error(`${this.host} sent no access token.`);
    return answer;
  }
}

async function answerOf(host, url, options) {
  let response;
  try {
    response = await fetch(url, { ...options, credentials: "omit", cache: "no-store" });
  } catch {
    throw new Error(`${host} does not answer.`);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error_description ?? `${host} answered ${response.status}.`);
  return answer;
}

function takeBegun() {
  const begun = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  return begun ? JSON.parse(begun) : null;
}

/** This page without a query, which the issuer must know as a redirect URI. */
const here = () => new URL(".", document.baseURI).href;

const randomText = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

async function challengeOf(verifier) {
  return base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");
}

// Entry point: the login, then the page of the address.

import { issuerLogin } from "./openid.js";
import { whereWeAre } from "./router.js";
import { hasToken, loginWithTokens, logout, resume } from "./session.js";
import { Shell } from "./shell.js";
import { loginPage } from "../views/login.js";

const app = document.getElementById("app");
let shell = null;
let issuer = null;

function showLogin(said = "") {
  shell?.close();
  shell = null;
  logout();
  app.replaceChildren(loginPage(said, issuer, showShell));
  app.querySelector("input, button").focus();
}

/** The user logs out, or the node refuses the credentials (`said`). */
function leave(said = "") {
  if (said) {
    showLogin(hasToken() ? "Your login has expired. Please log in again." : said);
    return;
  }
  const left = logout(true);
  showLogin();
  left.catch((trouble) => showLogin(trouble.message));
}

function showShell() {
  shell = new Shell(leave);
  app.replaceChildren(...shell.elements);
  shell.show(whereWeAre());
}

window.addEventListener("hashchange", () => shell?.show(whereWeAre()));

try {
  issuer = await issuerLogin();
  const tokens = await issuer?.complete();
  if (tokens) await loginWithTokens(issuer, tokens);
  if (tokens || (await resume(issuer))) showShell();
  else showLogin();
} catch (trouble) {
  showLogin(trouble.loginFailed ? "" : trouble.message);
}

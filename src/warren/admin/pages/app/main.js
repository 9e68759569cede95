// Entry point: the login, then the page of the address.

import { whereWeAre } from "./router.js";
import { logout, resume } from "./session.js";
import { Shell } from "./shell.js";
import { loginPage } from "../views/login.js";

const app = document.getElementById("app");
let shell = null;

function showLogin(said = "") {
  shell?.close();
  shell = null;
  logout();
  app.replaceChildren(loginPage(said, showShell));
  app.querySelector("input").focus();
}

function showShell() {
  shell = new Shell(showLogin);
  app.replaceChildren(...shell.elements);
  shell.show(whereWeAre());
}

window.addEventListener("hashchange", () => shell?.show(whereWeAre()));

try {
  if (await resume()) showShell();
  else showLogin();
} catch (trouble) {
  showLogin(trouble.loginFailed ? "" : trouble.message);
}

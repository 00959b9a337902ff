// Sends forms without leaving the page; a refusal is said where one is, and what was typed stays.
import { keep } from "./kept.js";
import { everything } from "./live.js";
import { say } from "./toasts.js";

const SIGNED_OUT = "This browser is not signed in any more: interlock open makes a link. What you typed is still here.";

/* global early, hold */
export function sendForms() {
  document.removeEventListener("submit", hold);
  for (const [form, button] of early.splice(0)) send(form, button);
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-form]")) return;
    event.preventDefault();
    send(form, event.submitter);
  });
  document.addEventListener("keydown", (event) => {
    const box = event.target;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && box.matches?.("form[data-form] textarea")) {
      event.preventDefault();
      const button = [...box.form.querySelectorAll("button")].find((one) => !one.name);
      box.form.requestSubmit(button ?? undefined);
    }
  });
}

async function send(form, button) {
  if (form.hasAttribute("data-busy")) return;
  const confirmation = button?.dataset.confirm;
  if (confirmation && !window.confirm(confirmation)) return;
  const needed = button?.dataset.needs;
  if (needed && !form.elements[needed]?.value.trim()) {
    form.elements[needed].focus();
    say("A few words on why, please.", true);
    return;
  }
  const box = form.querySelector("textarea[data-reply]");
  if (box && !button?.name && !box.value.trim()) {
    box.focus();
    return;
  }
  const place = form.closest("[data-region]");
  form.setAttribute("data-busy", "");
  button?.setAttribute("aria-busy", "true");
  try {
    const body = new URLSearchParams(new FormData(form, button));
    // Held per origin since the link was opened; the cookie alone, which other ports see, changes nothing.
    const headers = { accept: "application/json", "x-interlock-key": localStorage.getItem("interlock-key") ?? "" };
    const answer = await fetch(form.action, { method: "POST", body, headers });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      const why = answer.status === 401 ? SIGNED_OUT : said.message; // The server's words on that are for programs.
      say(why || "That was not done.", true);
      form.refused = why; // Said again beside what was typed, should the question go.
      if (box && !form.isConnected) keep(box, place, why);
      if (answer.status === 409 || answer.status === 404) everything();
      return;
    }
    done(form, said);
  } catch {
    say("The server does not answer. What you typed is still here.", true);
    if (box && !form.isConnected) keep(box, place);
  } finally {
    form.removeAttribute("data-busy");
    button?.removeAttribute("aria-busy");
  }
}

function done(form, said) {
  for (const box of form.querySelectorAll("textarea, input:not([type=hidden], [type=checkbox])")) box.value = "";
  if (form.matches("[data-task-id]") && form.contains(document.activeElement)) document.activeElement.blur();
  form.closest("details[data-menu]")?.removeAttribute("open");
  for (const menu of form.querySelectorAll("details[open]")) menu.removeAttribute("open");
  if (form.hasAttribute("data-follow") && said.to) {
    location.assign(said.to);
    return;
  }
  if (said.told || form.dataset.said) say(said.told || form.dataset.said);
  everything();
}

// The keyboard, for those who prefer it. Never while somebody writes, and never with Ctrl, Alt or Meta.
const PLACES = { n: "now", b: "board", d: "graph", m: "members", l: "messages", t: "timeline", w: "workflows", r: "report" };
const WAIT_MS = 1500;
const PAUSE_MS = 2000;
let going = 0;
let deafUntil = 0;

/** Hear no key of the page until nothing was typed for a while: somebody types on in a box that has gone. */
export function deaf() {
  deafUntil = performance.now() + PAUSE_MS;
}

export function listenForKeys() {
  const dialog = document.querySelector("[data-help-dialog]");
  for (const button of document.querySelectorAll("[data-help]")) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || document.querySelector("dialog[open]")) return;
    if (event.target.closest("textarea, input, select, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (performance.now() < deafUntil) {
      if (event.key === " ") event.preventDefault(); // It would scroll the page.
      return deaf();
    }
    if (pressed(event.key, dialog)) event.preventDefault();
  });
}

function pressed(key, dialog) {
  if (going && Date.now() - going < WAIT_MS) {
    going = 0;
    return go(key);
  }
  switch (key) {
    case "g":
      going = Date.now();
      return true;
    case "?":
      dialog.showModal();
      return true;
    case "j":
      return step(1);
    case "k":
      return step(-1);
    case "Enter":
      return open();
    case "n":
      return follow(document.querySelector("[data-next]"));
    case "a":
      return moves();
    case "r":
      return write("textarea[data-reply]");
    case "/":
      return write("[data-write]");
  }
  return /^[1-9]$/.test(key) && choose(Number(key));
}

/** Give the focus to an answer of the current question, for Enter to give it. */
function choose(number) {
  const question = current()?.closest(".question") ?? document.querySelector(".question");
  const option = question?.querySelectorAll(".options button")[number - 1];
  option?.focus();
  return Boolean(option);
}

function go(key) {
  if (key === "h") return follow(document.querySelector('.stations a[href="/"]'));
  return follow(document.querySelector(`.branch a[data-place="${PLACES[key]}"]`));
}

/** Open the menu of the current item, or of the page's own task. */
function moves() {
  const menu = (current() ?? document.querySelector(".task-head"))?.querySelector("details[data-menu]");
  if (!menu) return false;
  menu.open = true;
  (menu.querySelector(".menu-sheet :is(button, input)") ?? menu.querySelector("summary")).focus();
  return true;
}

function follow(link) {
  if (link) link.click();
  return Boolean(link);
}

const current = () => document.querySelector("[data-item][data-at]");

function step(by) {
  const items = [...document.querySelectorAll("[data-item]")].filter((one) => one.offsetParent !== null);
  if (!items.length) return false;
  const before = current();
  const place = before ? items.indexOf(before) + by : by > 0 ? 0 : items.length - 1;
  const next = items[Math.max(0, Math.min(items.length - 1, place))];
  before?.removeAttribute("data-at");
  next.setAttribute("data-at", "");
  const target = next.querySelector("a[href], button");
  target?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function open() {
  // A link or button that has the focus answers Enter itself.
  if (document.activeElement?.closest("a, button, summary")) return false;
  return follow(current()?.querySelector("a[href]"));
}

function write(selector) {
  const box = current()?.querySelector(selector) ?? document.querySelector(selector);
  box?.focus();
  return Boolean(box);
}

// Everything that the page leads to or does, by a few letters of its name: Ctrl-K or Cmd-K.
const MOST = 12;
let found = [];
let at = 0;

export function offerPalette() {
  const dialog = document.querySelector("[data-palette]");
  const [box, list] = [dialog.querySelector("input"), dialog.querySelector("ul")];
  const show = () => {
    found = matching(box.value);
    at = Math.max(0, Math.min(at, found.length - 1));
    list.replaceChildren(...found.map(({ label }, n) => option(label, n)));
    list.nextElementSibling.hidden = found.length > 0;
    box.setAttribute("aria-activedescendant", found.length ? `palette-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (dialog.open) return dialog.close();
    box.value = "";
    at = 0;
    dialog.showModal();
    show();
  });
  box.addEventListener("input", () => {
    at = 0;
    show();
  });
  dialog.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) at += by;
    else if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (by) show();
    else take(at);
  });
  list.addEventListener("click", (event) => take([...list.children].indexOf(event.target.closest("li"))));

  function take(n) {
    if (!found[n]) return;
    dialog.close();
    found[n].act();
  }
}

function option(label, n) {
  const made = document.createElement("li");
  made.id = `palette-${n}`;
  made.setAttribute("role", "option");
  made.setAttribute("aria-selected", String(n === at));
  made.textContent = label;
  return made;
}

function matching(typed) {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const known = new Map();
  for (const one of document.querySelectorAll(".line a, main a[href^='/'], main form[method=post] button:not([data-needs])")) {
    const label = name(one);
    if (label && !known.has(label) && words.every((word) => label.toLowerCase().includes(word))) {
      known.set(label, { label, act: () => one.click() });
    }
  }
  const board = document.querySelector('.branch a[data-place="board"]');
  const all = [...known.values()].slice(0, MOST);
  if (typed.trim() && board) {
    const act = () => location.assign(`${board.getAttribute("href")}?q=${encodeURIComponent(typed.trim())}`);
    all.push({ label: `Search the tasks for “${typed.trim()}”`, act });
  }
  return all;
}

/** What a link or a button is called, a button with what it is about. */
function name(one) {
  const words = (one.getAttribute("aria-label") ?? one.textContent).trim().replace(/\s+/g, " ");
  const about = one.localName === "button" && one.closest("[data-item], .task-head")?.querySelector("h1, h2, h3");
  return about ? `${words}: ${about.textContent.trim()}` : words;
}

// Brings an element to what the server shows now, changing only what differs: focus, scrolling, selections, open
// menus and typed text stay. Children are matched by id where they have one, else by place and kind.
import { keepTyped } from "./kept.js";

export function morph(from, to) {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
    keepTyped(from);
    from.replaceWith(to);
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from.isEqualNode(to)) return;
  const atEnd = from.matches("[data-tail]") && from.scrollHeight - from.scrollTop - from.clientHeight < 24;
  attributes(from, to);
  if (!isBox(from)) children(from, to);
  if (atEnd) from.scrollTop = from.scrollHeight;
}

const isBox = (node) => node.matches("textarea, input, select");

function attributes(from, to) {
  for (const { name } of [...from.attributes]) {
    // Whether a menu is open, and what was typed, is the person's.
    if (!to.hasAttribute(name) && !kept(from, name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !(name === "open" && from.localName === "details")) {
      from.setAttribute(name, value);
    }
  }
}

const kept = (node, name) =>
  (name === "open" && node.localName === "details") || ["data-at", "data-busy", "aria-busy"].includes(name);

function children(from, to) {
  const byId = new Map();
  for (const child of from.children) if (child.id) byId.set(child.id, child);
  let here = from.firstChild;
  for (const next of [...to.childNodes]) {
    const known = next.nodeType === Node.ELEMENT_NODE && next.id ? byId.get(next.id) : null;
    if (known) {
      if (known !== here) from.insertBefore(known, here);
      else here = here.nextSibling;
      morph(known, next);
      continue;
    }
    const fits = here && here.nodeType === next.nodeType && here.nodeName === next.nodeName && !here.id && !next.id;
    if (fits) {
      const following = here.nextSibling;
      morph(here, next);
      here = following;
    } else {
      from.insertBefore(next, here);
      if (next.nodeType === Node.ELEMENT_NODE && next.matches("[data-item]")) next.classList.add("fresh");
    }
  }
  while (here) {
    const following = here.nextSibling;
    keepTyped(here);
    here.remove();
    here = following;
  }
}
